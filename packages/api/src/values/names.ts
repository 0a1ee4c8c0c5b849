// Syntax rules for names, labels and keys (apimachinery util/validation). Each function returns Kubernetes' messages; an empty list means valid.
// Lengths count UTF-8 bytes. Every pattern is ASCII, so counting UTF-16 units is enough to reject.

export type NameRule = (value: string) => string[];

export const maxLenError = (length: number) => `must be no more than ${length} characters`;
const maxBytesError = (length: number) => `must be no more than ${length} bytes`;
export const inclusiveRangeError = (low: number, high: number) => `must be between ${low} and ${high}, inclusive`;
export function regexError(message: string, pattern: string, ...examples: string[]): string {
  if (examples.length === 0) return `${message} (regex used for validation is '${pattern}')`;
  return `${message} (e.g. ${examples.map((example) => `'${example}', `).join(' or ')}regex used for validation is '${pattern}')`;
}

const label1123 = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
const subdomain1123 = `${label1123}(\\.${label1123})*`;
const label1035 = '[a-z]([-a-z0-9]*[a-z0-9])?';
const labelKey = '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]';
const labelValue = `(${labelKey})?`;
const whole = (pattern: string) => new RegExp(`^(?:${pattern})$`);
const prefixedKeyRegexp = whole(`${subdomain1123}/${labelKey}`);
const [label1123Regexp, subdomain1123Regexp, label1035Regexp, labelKeyRegexp, labelValueRegexp] = [
  label1123,
  subdomain1123,
  label1035,
  labelKey,
  labelValue,
].map(whole) as [RegExp, RegExp, RegExp, RegExp, RegExp];

export function isDns1123Label(value: string): string[] {
  const errors = value.length > 63 ? [maxLenError(63)] : [];
  if (!label1123Regexp.test(value)) {
    errors.push(
      subdomain1123Regexp.test(value)
        ? 'must not contain dots'
        : regexError(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            label1123,
            'my-name',
            '123-abc',
          ),
    );
  }
  return errors;
}

export function isDns1123Subdomain(value: string): string[] {
  const errors = value.length > 253 ? [maxLenError(253)] : [];
  if (!subdomain1123Regexp.test(value)) {
    errors.push(
      regexError(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        subdomain1123,
        'example.com',
      ),
    );
  }
  return errors;
}

export function isDns1035Label(value: string): string[] {
  const errors = value.length > 63 ? [maxLenError(63)] : [];
  if (!label1035Regexp.test(value)) {
    errors.push(
      regexError(
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
        label1035,
        'my-name',
        'abc-123',
      ),
    );
  }
  return errors;
}

const wildcard = `\\*\\.${subdomain1123}`;
const wildcardRegexp = whole(wildcard);
export function isWildcardDns1123Subdomain(value: string): string[] {
  const errors = value.length > 253 ? [maxLenError(253)] : [];
  if (!wildcardRegexp.test(value)) {
    errors.push(
      regexError(
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
        wildcard,
        '*.example.com',
      ),
    );
  }
  return errors;
}

const labelKeyMessage = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/** A label key, also called a qualified name: an optional DNS subdomain and `/`, then a name of at most 63 bytes. */
export function isQualifiedName(value: string): string[] {
  // most keys are valid: their messages are not built, and `split` is not called. A `/` does not match
  const slash = value.indexOf('/');
  if (slash < 0) {
    if (value.length <= 63 && labelKeyRegexp.test(value)) return [];
  } else if (slash <= 253 && value.length - slash <= 64 && prefixedKeyRegexp.test(value)) return [];
  const parts = value.split('/');
  const pattern = regexError(labelKeyMessage, labelKey, 'MyName', 'my.name', '123-abc');
  if (parts.length > 2) return [`a valid label key ${pattern} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`];
  const errors: string[] = [];
  const name = parts.at(-1) ?? '';
  if (parts.length === 2) {
    const prefix = parts[0] ?? '';
    if (prefix === '') errors.push('prefix part must be non-empty');
    else errors.push(...isDns1123Subdomain(prefix).map((message) => `prefix part ${message}`));
  }
  if (name === '') errors.push('name part must be non-empty');
  else if (name.length > 63) errors.push(`name part ${maxBytesError(63)}`);
  if (!labelKeyRegexp.test(name)) errors.push(`name part ${pattern}`);
  return errors;
}

export function isLabelValue(value: string): string[] {
  const errors = value.length > 63 ? [maxBytesError(63)] : [];
  if (!labelValueRegexp.test(value)) {
    errors.push(
      regexError(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        labelValue,
        'MyValue',
        'my_value',
        '12345',
      ),
    );
  }
  return errors;
}

/**
 * A name that can be one segment of a URL path: the rule for RBAC objects and others without a stricter one. NUL, which upstream accepts, is rejected:
 * no URL path may contain it, so the object could not be read or deleted by its name.
 */
export function isPathSegmentName(value: string): string[] {
  return value === '.' || value === '..' ? [`may not be '${value}'`] : isPathSegmentPrefix(value);
}
/** As `isPathSegmentName` for a prefix, which may be `.` or `..` because characters follow. */
export function isPathSegmentPrefix(value: string): string[] {
  const errors = ['/', '%'].filter((illegal) => value.includes(illegal)).map((illegal) => `may not contain '${illegal}'`);
  return value.includes('\0') ? [...errors, 'may not contain NUL'] : errors;
}

/**
 * Returns the rule for `generateName`: a trailing `-` is allowed, because the suffix follows. As upstream, the rule applies to a value that is one
 * character shorter, without the character before the `-`: so the name of an object with 253 characters and a `-` is a prefix.
 */
export function asPrefix(rule: NameRule): NameRule {
  return (value) => rule(value.length > 1 && value.endsWith('-') ? `${value.slice(0, -2)}a` : value);
}

const configMapKey = '[-._a-zA-Z0-9]+';
const configMapKeyRegexp = whole(configMapKey);
/** Keys of a ConfigMap or Secret. */
export function isConfigMapKey(value: string): string[] {
  const errors = value.length > 253 ? [maxLenError(253)] : [];
  if (!configMapKeyRegexp.test(value)) {
    errors.push(
      regexError(
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
        configMapKey,
        'key.name',
        'KEY_NAME',
        'key-name',
      ),
    );
  }
  if (value === '.' || value === '..') errors.push(`must not be '${value}'`);
  else if (value.startsWith('..')) errors.push("must not start with '..'");
  return errors;
}

/** Printable ASCII except `=`. */
export function isEnvVarName(value: string): string[] {
  const errors = value === '' ? ['environment variable name must be non-empty'] : [];
  if (!/^[\x20-\x3c\x3e-\x7e]*$/.test(value)) {
    errors.push("a valid environment variable name must consist only of printable ASCII characters other than '='");
  }
  return errors;
}

const cIdentifier = '[A-Za-z_][A-Za-z0-9_]*';
const cIdentifierRegexp = whole(cIdentifier);
export function isCIdentifier(value: string): string[] {
  return cIdentifierRegexp.test(value)
    ? []
    : [
        regexError(
          "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
          cIdentifier,
          'my_name',
          'MY_NAME',
          'MyName',
        ),
      ];
}

const headerName = '[-A-Za-z0-9]+';
const headerNameRegexp = whole(headerName);
export function isHttpHeaderName(value: string): string[] {
  return headerNameRegexp.test(value)
    ? []
    : [regexError("a valid HTTP header must consist of alphanumeric characters or '-'", headerName, 'X-Header-Name')];
}

const inRange = (value: number, low: number, high: number) => (value >= low && value <= high ? [] : [inclusiveRangeError(low, high)]);
export const isPortNumber = (value: number): string[] => inRange(value, 1, 65535);
export const isUserId = (value: number): string[] => inRange(value, 0, 4294967295);
export const isGroupId = isUserId;

/** RFC 6335 in lower case: at most 15 of `[-a-z0-9]` with at least one letter. */
export function isPortName(value: string): string[] {
  const errors = value.length > 15 ? [maxLenError(15)] : [];
  if (!/^[-a-z0-9]+$/.test(value)) errors.push('must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)');
  if (!/[a-z]/.test(value)) errors.push('must contain at least one letter (a-z)');
  if (value.includes('--')) errors.push('must not contain consecutive hyphens');
  if (value.startsWith('-') || value.endsWith('-')) errors.push('must not begin or end with a hyphen');
  return errors;
}

const percent = '[0-9]+%';
const percentRegexp = whole(percent);
export function isPercent(value: string): string[] {
  return percentRegexp.test(value)
    ? []
    : [regexError("a valid percent string must be a numeric string followed by an ending '%'", percent, '1%', '93%')];
}
