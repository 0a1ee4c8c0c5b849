import { floatLiteralPaths } from '@oarlock/api/json/float-literals';

const none: ReadonlySet<string> = new Set();
const floatPathsByBody = new WeakMap<object, ReadonlySet<string>>();

/** Remembers of a body which of its whole numbers the client wrote as floats: they are no integers to upstream. */
export function recordFloatLiterals(body: unknown, text: string): void {
  if (typeof body !== 'object' || body === null) return;
  const found = floatLiteralPaths(text);
  if (found.size > 0) floatPathsByBody.set(body, found);
}

/** The places in a body as it was sent; none where nobody remembered any. */
export const floatLiteralsOf = (body: unknown): ReadonlySet<string> =>
  (typeof body === 'object' && body !== null ? floatPathsByBody.get(body) : undefined) ?? none;
