import { floatLiteralPaths } from '@oarlock/api/json/float-literals';

const none: ReadonlySet<string> = new Set();
const floatPathsByBody = new WeakMap<object, ReadonlySet<string>>();

/** Records the paths of whole numbers that the client wrote as floats (`1.0`), because upstream does not decode them as integers. */
export function recordFloatLiterals(body: unknown, text: string): void {
  if (typeof body !== 'object' || body === null) return;
  const found = floatLiteralPaths(text);
  if (found.size > 0) floatPathsByBody.set(body, found);
}

/** Returns the recorded paths of a body; empty if none were recorded. */
export const floatLiteralsOf = (body: unknown): ReadonlySet<string> =>
  (typeof body === 'object' && body !== null ? floatPathsByBody.get(body) : undefined) ?? none;
