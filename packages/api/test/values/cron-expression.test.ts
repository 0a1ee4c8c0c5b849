import { describe, expect, it } from 'vitest';
import { parseCronExpression, type CronFields } from '../../src/values/cron-expression.ts';
import { ParseError } from '../../src/values/parse-error.ts';

const fields = (text: string) => parseCronExpression(text) as CronFields;

describe('parseCronExpression', () => {
  it('parses numbers, ranges, steps, lists and names of the five fields', () => {
    const { minute, hour, day, month, weekday } = fields('*/20 0-6/3,22 1,15 JAN-mar mon');
    expect([minute, hour, day, month, weekday].map(({ values }) => [...values])).toEqual([
      [0, 20, 40],
      [0, 3, 6, 22],
      [1, 15],
      [1, 2, 3],
      [1],
    ]);
  });

  it.each([
    ['* 1 ? */1 */2', [true, false, true, true, false]],
    ['1,* 1 1 1 1', [true, false, false, false, false]],
  ])('reports which fields of %s have a star', (text, expected) => {
    const { minute, hour, day, month, weekday } = fields(text);
    expect([minute, hour, day, month, weekday].map(({ hasStar }) => hasStar)).toEqual(expected);
  });

  it.each([
    ['@weekly', '0 0 * * 0'],
    ['@annually', '0 0 1 1 *'],
    ['1,,2 * * * *', '1,2 * * * *'],
    ['*-3 * * * *', '* * * * *'],
    ['+5 * * * *', '5 * * * *'],
    ['50/5 * * * *', '50,55 * * * *'],
  ])('parses %s as %s', (text, same) => {
    expect(fields(text)).toEqual(fields(same));
  });

  it.each([
    ['@every 1h30m', 5_400_000],
    ['@every 1.9s', 1_000],
    ['@every 1ms', 1_000],
    ['@every -5m', 1_000],
  ])('parses the interval of %s', (text, everyMs) => {
    expect(parseCronExpression(text)).toEqual({ everyMs });
  });

  it.each([
    ['', 'empty spec string'],
    [' ', 'expected exactly 5 fields, found 0: []'],
    ['* * * *', 'expected exactly 5 fields, found 4: [* * * *]'],
    ['@noon', 'unrecognized descriptor: @noon'],
    ['@every 1 hour', 'failed to parse duration @every 1 hour: time: unknown unit " hour" in duration "1 hour"'],
    ['5-1 * * * *', 'beginning of range (5) beyond end of range (1): 5-1'],
    ['* * 0 * *', 'beginning of range (0) below minimum (1): 0'],
    ['61 * * * *', 'end of range (61) above maximum (59): 61'],
    ['1-2-3 * * * *', 'too many hyphens: 1-2-3'],
    ['1/2/3 * * * *', 'too many slashes: 1/2/3'],
    ['*/0 * * * *', 'step of range should be a positive number: */0'],
    ['*/-1 * * * *', 'negative number (-1) not allowed: -1'],
    ['x * * * *', 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'],
    [
      '9223372036854775808 * * * *',
      'failed to parse int from 9223372036854775808: strconv.Atoi: parsing "9223372036854775808": value out of range',
    ],
  ])('rejects %j', (text, message) => {
    expect(() => parseCronExpression(text)).toThrow(new ParseError('cron', message));
  });

  it('rejects an expression that would take long to parse', () => {
    const message = 'expected at most 8192 characters, found 8194';
    expect(() => parseCronExpression('1,'.repeat(4097))).toThrow(new ParseError('cron', message));
  });
});
