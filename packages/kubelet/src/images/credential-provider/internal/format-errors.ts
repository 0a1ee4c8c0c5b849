/** Returns one text for errors of fields, as upstream's aggregates have it. */
export function formatFieldErrors(errors: readonly { readonly field: string; readonly message: string }[]): string {
  const texts = errors.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));
  return texts.length === 1 ? (texts[0] ?? '') : `[${texts.join(', ')}]`;
}
