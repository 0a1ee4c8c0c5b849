import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { customResourceDefinitions } from '@oarlock/api/resources';
import { isStatus } from '@oarlock/api/status';
import type { CustomResourceDefinition } from '@oarlock/api/types/apiextensions-v1';
import { typeDeclarations } from '@oarlock/controller-kit/type-declarations';
import { errorText } from '@oarlock/primitives/error-text';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';
import { withCluster, type LimitedAccessOptions } from '../common/cluster-access.ts';
import { CommandError, exitCodes } from '../common/command-error.ts';

export interface TypesOptions extends LimitedAccessOptions {
  /** The file to write; absent: standard output. */
  readonly output?: string;
}

const name = z.string().min(1);
/** The parts of a definition that its types depend on. Schemas are read as they are. */
const definitionSchema = z.looseObject({
  metadata: z.looseObject({ name }),
  spec: z.looseObject({
    group: name,
    scope: z.enum(['Namespaced', 'Cluster']),
    names: z.looseObject({ kind: name, plural: name }),
    versions: z.array(z.looseObject({ name, served: z.boolean(), storage: z.boolean(), schema: z.looseObject({}).optional() })).min(1),
  }),
});

/**
 * Prints or writes the types of custom resources. Each source is a file with manifests, or the name of a definition in a cluster.
 * @throws CommandError if a source has no definition
 */
export async function types(sources: readonly string[], options: TypesOptions): Promise<void> {
  const isFile = (source: string) => existsSync(source);
  const fromFiles = (await Promise.all(sources.filter(isFile).map(definitionsIn))).flat();
  const names = sources.filter((source) => !isFile(source));
  for (const each of names)
    if (/[/\\]|\.(ya?ml|json)$/.test(each)) throw new CommandError(`the file ${each} does not exist`, exitCodes.usage);
  const fromCluster = names.length === 0 ? [] : await readDefinitions(names, options);
  let text: string;
  try {
    text = typeDeclarations([...fromFiles, ...fromCluster]);
  } catch (cause) {
    throw new CommandError(errorText(cause), exitCodes.usage, { cause });
  }
  if (options.output === undefined) process.stdout.write(text);
  else await writeFile(options.output, text);
}

/** Returns the definitions in a file of YAML documents, or in a list. */
async function definitionsIn(file: string): Promise<readonly CustomResourceDefinition[]> {
  const objects: unknown[] = [];
  for (const document of parseAllDocuments(await readFile(file, 'utf8'))) {
    const [error] = document.errors;
    if (error !== undefined) throw new CommandError(`${file}: ${error.message}`, exitCodes.usage);
    const value: unknown = document.toJS({ maxAliasCount: 100 });
    const { items } = (value ?? {}) as { readonly items?: unknown };
    objects.push(...(Array.isArray(items) ? items : [value]));
  }
  const definitions = objects.filter((object) => isDefinition(object));
  if (definitions.length === 0)
    throw new CommandError(`${file} has no CustomResourceDefinition of apiextensions.k8s.io/v1`, exitCodes.usage);
  for (const definition of definitions) {
    const { error } = definitionSchema.safeParse(definition);
    const [issue] = error?.issues ?? [];
    if (issue !== undefined) throw new CommandError(`${file}: ${issue.path.join('.')}: ${issue.message}`, exitCodes.usage);
  }
  return definitions;
}

function isDefinition(object: unknown): object is CustomResourceDefinition {
  const { apiVersion, kind } = (object ?? {}) as Record<string, unknown>;
  return apiVersion === 'apiextensions.k8s.io/v1' && kind === 'CustomResourceDefinition';
}

async function readDefinitions(names: readonly string[], options: LimitedAccessOptions): Promise<readonly CustomResourceDefinition[]> {
  try {
    return await withCluster(options, ({ client }) =>
      Promise.all(names.map((each) => client.get(customResourceDefinitions, { name: each }))),
    );
  } catch (cause) {
    throw isStatus(cause, 'NotFound') ? new CommandError(cause.message, exitCodes.failed, { cause }) : cause;
  }
}
