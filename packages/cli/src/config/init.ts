import { readFile, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { sections } from '@oarlock/cluster/cluster-file/sections';
import { readyComposition, readyCompositions } from '@oarlock/cluster/composition/ready-compositions';
import { z } from 'zod';
import { fileErrorReason } from '@oarlock/primitives/os/file-error';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { commandName } from '../common/command-name.ts';
import { shellWord } from '../common/shell-word.ts';

const schemaName = 'cluster.schema.json';

/** Returns the JSON schema of a cluster file, as its author writes it. The configs of plugins are not part of it. */
export const clusterFileSchema = (): object => ({
  title: 'cluster.yaml of Oarlock',
  ...z.toJSONSchema(clusterSchema, { io: 'input', unrepresentable: 'any' }),
});

const schemaText = (): string => `${JSON.stringify(clusterFileSchema(), null, 2)}\n`;

/** Prints the JSON schema of a cluster file. */
export function printSchema(): void {
  process.stdout.write(schemaText());
}

/**
 * Writes a cluster file that begins with a ready composition, and its JSON schema beside it.
 * @throws CommandError if the composition is unknown or the file exists; nothing is written then
 */
export async function init(composition: string, { output }: { readonly output: string }): Promise<void> {
  const ready = readyComposition(composition);
  if (ready === undefined)
    throw new CommandError(
      `unknown composition ${JSON.stringify(composition)}; ready compositions are: ${readyCompositions().join(', ')}`,
      exitCodes.usage,
    );
  const text = `# yaml-language-server: $schema=./${schemaName}\n${await readFile(ready, 'utf8')}${unusedSections(await readFile(ready, 'utf8'))}`;
  try {
    await writeFile(output, text, { flag: 'wx' });
  } catch (cause) {
    const problem = (cause as NodeJS.ErrnoException).code === 'EEXIST' ? 'already exists' : `cannot be written: ${fileErrorReason(cause)}`;
    throw new CommandError(`${output} ${problem}; nothing was written. \`-o FILE\` names another file`, exitCodes.usage, { cause });
  }
  const schema = join(dirname(output), schemaName);
  await writeFile(schema, schemaText());
  const oarlock = commandName(import.meta.url);
  const file = shellWord(output);
  console.log(
    `wrote ${output} and ${schema}\n\nNext steps:\n  edit ${basename(output)}\n  ${oarlock} config validate -f ${file}\n  ${oarlock} up -f ${file}`,
  );
}

/** Returns comments for the sections that a composition leaves to their defaults. */
function unusedSections(text: string): string {
  const unused = sections.filter(({ key }) => !new RegExp(`^  ${key}:`, 'm').test(text));
  return [
    '  # These sections have their defaults; `oarlock config print -f FILE` prints all of them:',
    ...unused.map(({ key }) => `  # ${key}:`),
    '',
  ].join('\n');
}
