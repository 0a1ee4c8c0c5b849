/** Secrets by their form: PEM blocks, JSON web tokens, bootstrap tokens, bearer tokens, and passwords of URLs. */
const secretForms: readonly RegExp[] = [
  /-----BEGIN [A-Z ]+-----[\s\S]*?-----END [A-Z ]+-----/g,
  /\beyJ[\w-]+\.[\w-]+\.[\w-]*/g,
  /\b[a-z0-9]{6}\.[a-z0-9]{16}\b/g,
  /(?<=\bbearer\s+)\S+/gi,
  /(?<=:\/\/)[^/\s@]+(?=@)/g,
];
/** Long random text, which may also be the id of a container or the digest of an image. */
const longText = /[A-Za-z0-9+/_-]{40,}={0,2}/g;

export const redacted = '<redacted>';

/** Replaces secrets that have a known form, and long random text, wherever they occur in a text. Paths remain. */
export function redactSecrets(text: string): string {
  return replaceAll(text, [...secretForms, longText]);
}

/** Replaces secrets that have a known form in a text of a log. Ids and digests remain. */
export function redactLogText(text: string): string {
  return replaceAll(text, secretForms);
}

function replaceAll(text: string, forms: readonly RegExp[]): string {
  let result = text;
  for (const form of forms) result = result.replace(form, (match) => (match.includes('/') && !isKey(match) ? match : redacted));
  return result;
}

/** A path has no segment that is as long as a key, and a key has no file extension. */
const isKey = (text: string) => text.startsWith('-----') || text.split('/').some((segment) => segment.length >= 30);

/** Words at the end of a field's name that announce a secret, whatever its form. Names of files, such as `tokenFile`, remain. */
const secretField = /(?:password|passphrase|secret|token|credential|authorization|cookie)s?$/i;
/** `key`, `apiKey`, `private_key` and `apikey`, but not `monkey`. */
const keyField = /(?:^|[a-z0-9](?=K)|[-_.]|api|private|access|secret|encryption|signing)[kK]eys?$|(?:^|_)KEYS?$/;
const publicKeyField = /public[-_]?keys?$/i;
const maxDepth = 8;
const maxEntries = 200;
const maxText = 1000;

interface RedactionRules {
  redactText(text: string): string;
  /** Returns true for a value that is no secret although its field has the name of one. */
  isHarmless(name: string, value: unknown): boolean;
}

/** Returns a config without secrets, and without values that JSON does not have. Its size is bounded. */
export function redactConfig(value: unknown): unknown {
  return redactValue(value, { redactText: (text) => redactSecrets(text).slice(0, maxText), isHarmless: () => false });
}

/** Returns the fields of a log line without secrets. Errors remain, and so do the keys of objects in fields such as `key` and `secret`. */
export function redactLogFields(fields: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const rules: RedactionRules = {
    redactText: redactLogText,
    isHarmless: (name, value) => (/^keys?$/.test(name) && isObjectKey(value)) || (name === 'secret' && isObjectKey(value, '/')),
  };
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? value : redactField([name, value], rules)]),
  );
}

function redactField([name, value]: readonly [string, unknown], rules: RedactionRules, depth = 0): unknown {
  return isSecret(name, value) && !rules.isHarmless(name, value) ? redacted : redactValue(value, rules, depth);
}

function redactValue(value: unknown, rules: RedactionRules, depth = 0): unknown {
  if (typeof value === 'string') return rules.redactText(value);
  if (typeof value === 'boolean' || typeof value === 'number' || value === null) return value;
  if (typeof value !== 'object' || depth === maxDepth) return undefined;
  if ('toJSON' in value && typeof value.toJSON === 'function') return redactValue(value.toJSON(), rules, depth + 1);
  if (Array.isArray(value)) return value.slice(0, maxEntries).map((item: unknown) => redactValue(item, rules, depth + 1) ?? null);
  const entries = Object.entries(value).slice(0, maxEntries) as readonly (readonly [string, unknown])[];
  return Object.fromEntries(entries.map((entry) => [entry[0], redactField(entry, rules, depth + 1)]));
}

function isSecret(name: string, value: unknown): boolean {
  if (typeof value === 'boolean' || typeof value === 'number' || value === undefined || value === null) return false;
  return secretField.test(name) || (keyField.test(name) && !publicKeyField.test(name));
}

/** Returns true for the key of an object, `namespace/name` or `name`, or of a store, and false for a cryptographic key in hexadecimal or base64. */
const isObjectKey = (value: unknown, required = ''): boolean =>
  typeof value === 'string' &&
  value.length <= 512 &&
  value.includes(required) &&
  /^\/?[a-z0-9.:-]+(?:\/[a-z0-9.:-]+)*$/.test(value) &&
  !/[0-9a-f]{32,}/.test(value);
