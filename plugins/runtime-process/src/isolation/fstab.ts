/** Returns an entry of fstab(5). */
export const fstabLine = (
  source: string,
  target: string,
  { type = 'none', options }: { readonly type?: string; readonly options: string },
) => `${escapeField(source)} ${escapeField(target)} ${type} ${options} 0 0\n`;

/** Escapes a field as fstab(5) requires. */
const escapeField = (field: string) => escapeCharacters(field, /[\s\\#]/g);

/** Escapes the path of a mount point as the kernel does in /proc/self/mountinfo. */
export const escapeMountPoint = (path: string) => escapeCharacters(path, /[ \t\n\\]/g);

const escapeCharacters = (text: string, characters: RegExp) =>
  text.replace(characters, (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`);
