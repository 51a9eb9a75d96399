/* Days are counted in the proleptic Gregorian calendar by eras of 400 years that begin on 1 March, so that the leap day
 * is a year's last. */
#include "shuffle/rows/value_time.h"

#include <stdio.h>

static const int64_t us_per_day = INT64_C(86400000000);
static const char date_words[] = "is not a date such as 2026-07-31";
static const char timestamp_words[] = "is not a timestamp such as 2026-07-31 13:45:00.25";

static int64_t days_of(int64_t year, uint32_t month, uint32_t day)
{
    year -= month <= 2;
    const int64_t era = (year >= 0 ? year : year - 399) / 400;
    const int64_t year_of_era = year - era * 400;
    const int64_t day_of_year = (153 * (int64_t)((month + 9) % 12) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
}

static void date_of(int64_t days, int64_t *year, uint32_t *month, uint32_t *day)
{
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const int64_t day_of_era = days - era * 146097;
    const int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = (uint32_t)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (uint32_t)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

static bool scan_two(const uint8_t *text, uint32_t *number)
{
    if (!shuffle_value_is_digit(text[0]) || !shuffle_value_is_digit(text[1]))
        return false;
    *number = (uint32_t)(text[0] - '0') * 10 + (uint32_t)(text[1] - '0');
    return true;
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* A date at the start of text; *used is its length. */
static bool scan_date(const uint8_t *text, size_t bytes, int64_t *days, size_t *used)
{
    static const uint8_t month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool sign = bytes > 0 && (text[0] == '-' || text[0] == '+');
    size_t i = sign;
    int64_t year = 0;
    for (; i < bytes && shuffle_value_is_digit(text[i]) && i < 9; i++)
        year = year * 10 + (text[i] - '0');
    if (i - sign < 4 || (!sign && i != 4) || bytes - i < 6)
        return false;
    year = text[0] == '-' ? -year : year;
    uint32_t month, day;
    if (text[i] != '-' || text[i + 3] != '-' || !scan_two(text + i + 1, &month) || !scan_two(text + i + 4, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > month_days[month - 1] + (uint32_t)(month == 2 && is_leap(year)))
        return false;
    *days = days_of(year, month, day);
    *used = i + 6;
    return true;
}

const char *shuffle_value_parse_date(const uint8_t *text, size_t bytes, uint8_t *to)
{
    int64_t days;
    size_t used;
    if (!scan_date(text, bytes, &days, &used) || used != bytes)
        return date_words;
    if (days < INT32_MIN || days > INT32_MAX)
        return "is out of range for a date";
    base_store_u32(to, (uint32_t)days);
    return NULL;
}

/* HH:MM[:SS[.ffffff]], all of text. */
static const char *scan_time(const uint8_t *text, size_t bytes, int64_t *us)
{
    uint32_t hour, minute, second = 0, fraction = 0;
    if (bytes < 5 || !scan_two(text, &hour) || text[2] != ':' || !scan_two(text + 3, &minute))
        return timestamp_words;
    size_t i = 5;
    if (i < bytes && text[i] == ':') {
        if (bytes < 8 || !scan_two(text + 6, &second))
            return timestamp_words;
        i = 8;
        if (i < bytes && text[i] == '.') {
            uint32_t unit = 100000;
            const size_t first = ++i;
            for (; i < bytes && shuffle_value_is_digit(text[i]); i++, unit /= 10) {
                if (i - first == 6)
                    return "has more than six digits after the second's point";
                fraction += (uint32_t)(text[i] - '0') * unit;
            }
            if (i == first)
                return timestamp_words;
        }
    }
    if (i < bytes && (text[i] == 'Z' || text[i] == '+' || text[i] == '-'))
        return "has a time zone, which a timestamp does not";
    if (i != bytes || hour > 23 || minute > 59 || second > 59)
        return timestamp_words;
    *us = ((int64_t)hour * 3600 + (int64_t)minute * 60 + second) * 1000000 + fraction;
    return NULL;
}

const char *shuffle_value_parse_timestamp(const uint8_t *text, size_t bytes, uint8_t *to)
{
    int64_t days, us = 0;
    size_t used;
    if (!scan_date(text, bytes, &days, &used))
        return timestamp_words;
    if (used < bytes) {
        if (text[used] != ' ' && text[used] != 'T')
            return timestamp_words;
        const char *words = scan_time(text + used + 1, bytes - used - 1, &us);
        if (words)
            return words;
    }
    const __int128 value = (__int128)days * us_per_day + us;
    if (value < INT64_MIN || value > INT64_MAX)
        return "is out of range for a timestamp";
    base_store_u64(to, (uint64_t)value);
    return NULL;
}

size_t shuffle_value_format_date(int64_t days, uint8_t *to)
{
    int64_t year;
    uint32_t month, day;
    date_of(days, &year, &month, &day);
    const char *format = year < 0 || year > 9999 ? "%+05ld-%02u-%02u" : "%04ld-%02u-%02u";
    return (size_t)snprintf((char *)to, SHUFFLE_VALUE_TEXT_MAX, format, (long)year, month, day);
}

size_t shuffle_value_format_timestamp(int64_t value, uint8_t *to)
{
    int64_t us = value % us_per_day;
    us += us < 0 ? us_per_day : 0;
    /* Written so, the smallest value does not overflow. */
    size_t bytes = shuffle_value_format_date(value / us_per_day - (value % us_per_day < 0), to);
    const int64_t second = us / 1000000;
    bytes += (size_t)snprintf((char *)to + bytes, SHUFFLE_VALUE_TEXT_MAX - bytes, " %02u:%02u:%02u",
                              (uint32_t)(second / 3600), (uint32_t)(second / 60 % 60), (uint32_t)(second % 60));
    us %= 1000000;
    if (us == 0)
        return bytes;
    bytes += (size_t)snprintf((char *)to + bytes, SHUFFLE_VALUE_TEXT_MAX - bytes, ".%06u", (uint32_t)us);
    while (to[bytes - 1] == '0')
        bytes--;
    return bytes;
}
