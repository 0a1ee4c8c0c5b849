const errorsByPatch = new WeakMap<object, readonly string[]>();
const none: readonly string[] = [];

/** Records the strict decoding errors in the text of a patch, such as duplicate fields, of which parsing keeps only the last. */
export function recordPatchErrors(patch: unknown, errors: readonly string[]): void {
  if (typeof patch === 'object' && patch !== null && errors.length > 0) errorsByPatch.set(patch, errors);
}

/** Returns the recorded errors of a patch, which upstream reports together with those of the patched object. */
export const patchErrorsOf = (patch: unknown): readonly string[] =>
  (typeof patch === 'object' && patch !== null ? errorsByPatch.get(patch) : undefined) ?? none;
