import { basename, dirname } from 'node:path';
import { parse } from 'yaml';
import { isFile, type BackedUpFile, type BackupLine } from './backup-file.ts';
import { isConfiguredKey } from './configured-keys.ts';

/** Matches the beginning of an encrypted value; the group is the name of the key. */
const encryptedValue = /^k8s:enc:[a-z]+:v1:([^:]+):/;
/** Number of base64 characters that hold the longest beginning: a key name has at most 253 characters. */
const prefixLength = 400;

/** Yields the lines of a backup, and adds the names of keys that encrypt its values but are not in the backup to `missing`. */
export async function* withKeyCheck(lines: AsyncIterable<BackupLine>, missing: Set<string>): AsyncGenerator<BackupLine> {
  const present = new Set<string>();
  for await (const line of lines) {
    if (isFile(line)) for (const name of keyNamesOf(line)) present.add(name);
    else {
      const [, name] = encryptedValue.exec(Buffer.from(line.value.slice(0, prefixLength), 'base64').toString('latin1')) ?? [];
      if (name !== undefined && !present.has(name)) missing.add(name);
    }
    yield line;
  }
}

/** Returns the names of the encryption keys in a file of a backup. */
function keyNamesOf({ file, content }: BackedUpFile): readonly string[] {
  if (!isConfiguredKey({ file, content }))
    return dirname(file).endsWith('encryption') ? [basename(file).replace(/(\.next)?\.key$/, '')] : [];
  if (dirname(file).endsWith('keys')) return [decodeURIComponent(basename(file))];
  const names: string[] = [];
  JSON.stringify(
    parse(Buffer.from(content, 'base64').toString('utf8'), { prettyErrors: false, logLevel: 'error' }),
    (key, value: unknown) => {
      if (key === 'name' && typeof value === 'string') names.push(value);
      return value;
    },
  );
  return names;
}
