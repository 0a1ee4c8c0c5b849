/** Returns an entry of fstab(5). */
export const fstabLine = (
  source: string,
  target: string,
  { type = 'none', options }: { readonly type?: string; readonly options: string },
) => `${escapeField(source)} ${escapeField(target)} ${type} ${options} 0 0\n`;

/** Escapes a field as fstab(5) requires. */
const escapeField = (field: string) =>
  field.replace(/[\s\\#]/g, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
