import type { X509Certificate } from 'node:crypto';

/** A type and a value of `subjectAltName`. Node quotes values with commas, quotes or control characters as JSON. */
const entry = /(?<type>[^:,]+):(?:"(?<quoted>(?:[^"\\]|\\.)*)"|(?<plain>[^,]*))(?:, |$)/gy;

/** Returns the subject alternative names of a certificate that are DNS names and e-mail addresses. */
export function alternativeNames({ subjectAltName = '' }: X509Certificate): {
  readonly dns: readonly string[];
  readonly email: readonly string[];
} {
  const names = [...subjectAltName.matchAll(entry)].map(({ groups = {} }) => ({
    type: groups['type'],
    value: groups['quoted'] === undefined ? (groups['plain'] ?? '') : (JSON.parse(`"${groups['quoted']}"`) as string),
  }));
  const ofType = (wanted: string) => names.filter(({ type }) => type === wanted).map(({ value }) => value);
  return { dns: ofType('DNS'), email: ofType('email') };
}

const atom = String.raw`[A-Za-z0-9!#$%&'*+/=?^_\x60{|}~-]+`;
const dotAtom = String.raw`${atom}(?:\.${atom})*`;
const quotedString = String.raw`"(?:[^"\\\r\n\x00]|\\[\x20-\x7e\t])*"`;
const domainLiteral = String.raw`\[[^\[\]\\\x00-\x20]*\]`;
const address = String.raw`(?:${dotAtom}|${quotedString})@(?:${dotAtom}|${domainLiteral})`;
const word = `(?:${dotAtom}|${quotedString})`;
const mailAddress = new RegExp(String.raw`^(?:${address}|(?:${word}(?:\s+${word})*\s*)?<${address}>)$`);

/** Returns true for an address of RFC 5322, with or without a display name. Comments in parentheses are not supported. */
export const isMailAddress = (text: string): boolean => mailAddress.test(text.trim());
