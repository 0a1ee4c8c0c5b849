import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { PluginHealth } from '@oarlock/kernel/plugin-health';
import { readIfExists } from '@oarlock/primitives/os/atomic-file';
import { z } from 'zod';

const pluginEnd = z.object({ plugins: z.array(z.string()), reason: z.string() });

/** The plugins that ended the previous process of a data directory, as its watchdog wrote them. */
export type PluginEnd = z.output<typeof pluginEnd>;

/** The file in which the watchdog names plugins that end the process. */
export const pluginEndFile = (dataDir: string): string => join(dataDir, 'plugin-end.json');

/**
 * Reads and removes the file. Returns undefined if no plugin ended the previous process, or if the file is not intact: the watchdog does not wait for the disk
 * before the process ends, and a report of the past must not prevent a start.
 */
export async function takePluginEnd(file: string): Promise<PluginEnd | undefined> {
  const text = await readIfExists(file);
  if (text === undefined) return undefined;
  await rm(file);
  return pluginEnd.safeParse(parsedJson(text)).data;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Reports the end to the health of each plugin that still runs. Returns a warning for the user. */
export function reportPluginEnd(
  { plugins, reason }: PluginEnd,
  hosted: readonly { readonly name: string; readonly health: PluginHealth | undefined }[],
): string {
  for (const { name, health } of hosted)
    if (plugins.includes(name)) health?.report('ended', new Error(`in the previous process, ${reason}`));
  const quoted = plugins.map((name) => JSON.stringify(name)).join(' or ');
  return `the previous process was ended by plugin ${quoted}: ${reason}. Correct it, or give it a thread of its own with \`placement: thread\``;
}
