import { isIP } from 'node:net';
import type { UserInfo } from 'node:os';
import { redactSecrets } from '@oarlock/primitives/redact-secrets';

export interface Identity extends Pick<UserInfo<string>, 'username' | 'homedir'> {
  readonly hostname: string;
}

const addresses = /(?<![\w.:])(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w)|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:]))/gi;
const isPublic = (address: string) => !/^(?:127\.|0\.0\.0\.0$|::1?$)/.test(address);
const escape = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
const word = (text: string) => new RegExp(`(?<![\\w-])${escape(text)}(?![\\w-])`, 'g');

/** Replaces secrets, names of the user and of the host, home directories and addresses. */
export function redactText(text: string, { username, homedir, hostname }: Identity): string {
  let result = text;
  // a path of 40 characters has the form of a key: directories first
  if (homedir.length > 1) result = result.replaceAll(homedir, '~');
  result = result.replace(/(?<=\/home\/)[^/\s]+/g, '<user>');
  result = redactSecrets(result);
  result = result.replace(addresses, (match) => (isIP(match) !== 0 && isPublic(match) ? '<address>' : match));
  if (hostname.length > 1) result = result.replace(word(hostname), '<host>');
  return username.length > 1 && username !== 'root' ? result.replace(word(username), '<user>') : result;
}

/** Redacts all texts of a value; keys of objects are names of fields. */
export function redact<T>(value: T, identity: Identity): T {
  if (typeof value === 'string') return redactText(value, identity) as T;
  if (Array.isArray(value)) return value.map((item: unknown) => redact(item, identity)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, redact(inner as unknown, identity)])) as T;
}
