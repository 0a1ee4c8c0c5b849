import { isIP, isIPv4, isIPv6 } from 'node:net';
import { isDns1123Label, isDns1123Subdomain } from '@oarlock/api/values/names';

type Format = (text: string) => boolean;

const dateTime = /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:?[0-9]{2})?$/;
const date = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/;
const uuid = (version: string) => {
  const pattern = new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$`, 'i');
  return (text: string) => pattern.test(text);
};
const matches = (pattern: RegExp) => (text: string) => pattern.test(text);

/** Matches Go durations, with the additional unit words of the strfmt package. */
const goDuration = /^[+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?(?:ns|us|µs|μs|ms|s|m|h)){1,16}$/;
const wordDuration =
  /^(?:[0-9]{1,18}(?:\.[0-9]{1,18})? ?(?:ns|nano|nanos|nanosecond|nanoseconds|us|µs|micro|micros|microsecond|microseconds|ms|milli|millis|millisecond|milliseconds|s|sec|secs|second|seconds|m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days|w|wk|wks|week|weeks))$/i;

const isDate: Format = (text) => {
  const [, year, month, day] = date.exec(text) ?? [];
  return year !== undefined && isDay(Number(year), Number(month), Number(day));
};

function isDay(year: number, month: number, day: number): boolean {
  return month >= 1 && month <= 12 && day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

function isDateTime(text: string): boolean {
  const found = dateTime.exec(text);
  if (found === null) return false;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found.slice(1).map(Number);
  return isDay(year, month, day) && hour < 24 && minute < 60 && second < 60;
}

function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text);
}

function isUri(text: string): boolean {
  return (text.startsWith('/') || /^[a-z][a-z0-9+.-]*:/i.test(text)) && !/[\s<>"{}|\\^`]/.test(text);
}

const single = /^[a-zA-Z0-9\p{S}\p{L}](?:-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?$/u;
const inner = /^[a-zA-Z0-9\p{S}\p{L}](?:[a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?$/u;
const topLevel = /^\p{L}{2,63}$/u;

/** Returns true for a hostname that upstream's govalidator accepts: a single label, or labels below an alphabetic top-level domain. */
function isHostname(text: string): boolean {
  const labels = text.split('.');
  const last = labels.pop() ?? '';
  const isShaped = labels.length === 0 ? single.test(last) : topLevel.test(last) && labels.every((label) => inner.test(label));
  return isShaped && Buffer.byteLength(text) <= 255 && [last, ...labels].every((label) => Buffer.byteLength(label) <= 63);
}

/** Returns true if the digits have a valid Luhn checksum, as credit card numbers have. */
function luhn(text: string): boolean {
  const digits = text.replace(/[^0-9]/g, '');
  if (digits.length < 13 || digits.length > 19) return false;
  let sum = 0;
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits.at(-1 - i));
    const doubled = i % 2 === 1 ? digit * 2 : digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum % 10 === 0;
}

function isIsbn(text: string, length: 10 | 13): boolean {
  const digits = text.replace(/[- ]/g, '');
  if (length === 10) {
    if (!/^[0-9]{9}[0-9Xx]$/.test(digits)) return false;
    let sum = 0;
    for (let i = 0; i < 10; i++) sum += (10 - i) * (/[Xx]/.test(digits.charAt(i)) ? 10 : Number(digits.charAt(i)));
    return sum % 11 === 0;
  }
  if (!/^[0-9]{13}$/.test(digits)) return false;
  let sum = 0;
  for (let i = 0; i < 13; i++) sum += Number(digits.charAt(i)) * (i % 2 === 0 ? 1 : 3);
  return sum % 10 === 0;
}

function isCidr(text: string): boolean {
  const slash = text.indexOf('/');
  if (slash < 0) return false;
  const [address, bits] = [text.slice(0, slash), text.slice(slash + 1)];
  const family = isIP(address);
  return family !== 0 && /^[0-9]{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128);
}

/** The string formats that upstream validates, by name. Other formats are not validated. */
const formats: ReadonlyMap<string, Format> = new Map<string, Format>(
  Object.entries({
    bsonobjectid: matches(/^[0-9a-f]{24}$/i),
    byte: isBase64,
    cidr: isCidr,
    creditcard: luhn,
    date: isDate,
    datetime: isDateTime,
    duration: (text) => goDuration.test(text) || wordDuration.test(text),
    email: matches(/^[^\s@<>"(),:;[\]\\]{1,64}@[^\s@<>"(),:;[\]\\]{1,255}$/),
    hexcolor: matches(/^#?(?:[0-9a-f]{3}|[0-9a-f]{6})$/i),
    hostname: isHostname,
    ipv4: isIPv4,
    ipv6: isIPv6,
    isbn: (text) => isIsbn(text, 10) || isIsbn(text, 13),
    isbn10: (text) => isIsbn(text, 10),
    isbn13: (text) => isIsbn(text, 13),
    'k8s-long-name': (text) => isDns1123Subdomain(text).length === 0,
    'k8s-short-name': (text) => isDns1123Label(text).length === 0,
    mac: matches(/^(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}$|^(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}$/i),
    password: () => true,
    rgbcolor: matches(
      /^rgb\(\s*(?:[01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])\s*,\s*(?:[01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])\s*,\s*(?:[01]?[0-9]{1,2}|2[0-4][0-9]|25[0-5])\s*\)$/,
    ),
    ssn: matches(/^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$/),
    uri: isUri,
    uuid: uuid('[0-9a-f]'),
    uuid3: uuid('3'),
    uuid4: uuid('4'),
    uuid5: uuid('5'),
  } satisfies Record<string, Format>),
);

/** Returns the validation function of a format; undefined if the format is not validated. `date-time` and `datetime` are the same format. */
export function formatOf(name: string): Format | undefined {
  return formats.get(name) ?? formats.get(name.replaceAll('-', ''));
}
