import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';
import type { PolicyRule } from '@oarlock/api/types/rbac-v1';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { describeFault } from '@oarlock/kernel/errors';
import type { Plugin } from '@oarlock/kernel/plugin';
import { writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { parse } from 'yaml';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { ruleWarnings } from './rule-warnings.ts';

/** The options of `oarlock plugins export` that every kind of export has. */
export interface ExportOptions {
  readonly output: string;
  readonly config?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly image?: string;
  readonly baseImage: string;
  readonly reads: readonly string[];
}

/** Loads the plugin to export. `source` is the module that is bundled. @throws CommandError if there is no such plugin */
export async function loadExported(use: string): Promise<{ readonly plugin: Plugin; readonly source: string }> {
  const found = await loadPlugin(use, undefined);
  if ('fault' in found) throw new CommandError(describeFault(found.fault), exitCodes.usage);
  return { plugin: found.plugin, source: found.source ?? found.module.replace(/^file:\/\//, '') };
}

/** The user-facing ClusterRoles of every cluster, and the service account of every namespace: applying the manifests would replace or extend them. */
const foreignNames: ReadonlySet<string> = new Set(['admin', 'cluster-admin', 'default', 'edit', 'view']);
const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/**
 * Returns the name of all objects of an export: that of the option, or the id of the plugin, which its author chooses.
 * @throws CommandError if it is not a DNS label (RFC 1123), as names of Services are, or if another object of the cluster has it
 */
export function exportedName({ name }: Pick<ExportOptions, 'name'>, { id }: Pick<Plugin, 'id'>): string {
  const chosen = name ?? id;
  if (label.test(chosen) && !foreignNames.has(chosen)) return chosen;
  const reason = foreignNames.has(chosen) ? 'is the name of an object of every cluster' : 'is not a DNS label';
  throw new CommandError(`${JSON.stringify(chosen)} ${reason}: name the objects of the export with --name`, exitCodes.usage);
}

/** @throws CommandError if the namespace of the option is not a DNS label */
export function exportedNamespace({ namespace }: Pick<ExportOptions, 'namespace'>, fallback: string): string {
  if (namespace === undefined || label.test(namespace)) return namespace ?? fallback;
  throw new CommandError(`--namespace: ${JSON.stringify(namespace)} is not a DNS label`, exitCodes.usage);
}

export async function readConfig({ config }: Pick<ExportOptions, 'config'>): Promise<unknown> {
  return config === undefined ? {} : parse(await readFile(config, 'utf8'));
}

export const dockerfile = (
  base: string,
  port: number,
): string => `# Any image with node 20.19 or newer works; neither a shell nor npm is needed.
FROM ${base}
COPY server.cjs /server.cjs
USER 65532:65532
EXPOSE ${port}
ENTRYPOINT ["node", "/server.cjs"]
`;

export interface WriteOptions {
  readonly output: string;
  readonly image: string;
  /** The rules of the ClusterRole among the manifests. */
  readonly rules: readonly PolicyRule[];
  readonly secrets?: readonly string[];
}

/** Writes the files of an export and prints warnings and the next steps. Files of `secrets` are readable only by their owner. */
export async function writeExport(files: ReadonlyMap<string, string>, { output, image, rules, secrets = [] }: WriteOptions): Promise<void> {
  const folder = resolve(output);
  for (const [path, text] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true, mode: 0o755 });
    // a file of an earlier export may have another mode
    await writeAtomic(join(folder, path), text, { mode: secrets.includes(path) ? 0o600 : 0o644 });
  }
  const short = relative(process.cwd(), folder);
  const displayPath = short.startsWith('..') ? folder : short || '.';
  console.log(`wrote ${[...files.keys()].join(', ')} to ${displayPath}\n`);
  for (const warning of ruleWarnings(rules)) console.error(`${warning}\n`);
  console.log(
    [
      'Next steps:',
      `docker build -t ${image} ${displayPath}/image && docker push ${image}`,
      `kubectl apply -f ${displayPath}/manifests/`,
    ].join('\n  '),
  );
  if (!image.includes('/'))
    console.log(`\nThe image has no registry. For a cluster that pulls from one, export again with --image REGISTRY/${image}`);
}
