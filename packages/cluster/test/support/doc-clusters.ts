/** Validates the YAML blocks of documentation pages: cluster files, parts of them, and manifests of Kubernetes objects. */
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { kindOf, parseApiVersion } from '@oarlock/api/kinds';
import type { KubeObject } from '@oarlock/api/object';
import { decodeObject } from '@oarlock/api/serializer/serializer';
import { isStatus } from '@oarlock/api/status';
import { validateObject } from '@oarlock/api/validation/validate-object';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { parseClusterFile } from '@oarlock/cluster/cluster-file/cluster-file';
import { placementsOf, sections } from '@oarlock/cluster/cluster-file/sections';
import { loadPlugin } from '@oarlock/cluster/plugins/plugin-loader';
import { builtin } from '@oarlock/controllers/builtin';
import { describeFault, WiringError } from '@oarlock/kernel/errors';
import { z } from 'zod';
import { parseAllDocuments } from 'yaml';

export interface YamlBlock {
  readonly line: number;
  readonly text: string;
}

/** Returns the YAML blocks of a page, also those of lists, without their indentation. */
export const yamlBlocks = (page: string): readonly YamlBlock[] =>
  [...page.matchAll(/^( *)```ya?ml\n([\s\S]*?)^\1```/gm)].map((match) => ({
    line: page.slice(0, match.index).split('\n').length,
    text: (match[2] ?? '').replaceAll(new RegExp(`^${match[1] ?? ''}`, 'gm'), ''),
  }));

const specKeys = new Set(
  Object.keys((z.toJSONSchema(clusterSchema, { io: 'input', unrepresentable: 'any' }) as Schema).properties?.['spec']?.properties ?? {}),
);
interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const keysAre = (value: unknown, known: ReadonlySet<string>) =>
  isObject(value) && Object.keys(value).length > 0 && Object.keys(value).every((key) => known.has(key));

/** Files of other components, by their kind; their own tests read the blocks. */
const checkedElsewhere: ReadonlySet<unknown> = new Set(['CredentialProviderConfig']);

/** Returns the cluster file that a YAML document is, or is a part of; undefined for other documents, such as manifests. */
function clusterOf(document: unknown): object | undefined {
  const head = { apiVersion: 'oarlock.dev/v1', kind: 'Cluster' };
  if (!isObject(document)) return undefined;
  if (document['apiVersion'] === head.apiVersion && document['kind'] === head.kind) return document;
  if (keysAre(document, new Set(['spec'])) && isObject(document['spec'])) return { ...head, ...document };
  return keysAre(document, specKeys) ? { ...head, spec: document } : undefined;
}

const isPath = (use: string) => /^(?:[./]|file:)/.test(use);

/**
 * Returns what is wrong with a YAML block: its syntax, and the keys, names of plugins and configs of a cluster file or a part of one, or the fields of
 * a manifest. Plugins by path, which pages about writing them use, are not loaded.
 */
export async function yamlProblems({ text }: YamlBlock): Promise<readonly string[]> {
  const documents = parseAllDocuments(text);
  const syntax = documents.flatMap(({ errors }) => errors.map(({ message }) => message));
  if (syntax.length > 0) return syntax;
  const problems: string[] = [];
  for (const document of documents) {
    const cluster = clusterOf(document.toJS());
    problems.push(...(cluster === undefined ? manifestProblems(document.toJS()) : await clusterProblems(cluster)));
  }
  return problems;
}

/** Returns what an API server would reject in a manifest of a built-in kind, also unknown fields. */
function manifestProblems(manifest: unknown): readonly string[] {
  if (!isObject(manifest) || typeof manifest['apiVersion'] !== 'string' || typeof manifest['kind'] !== 'string')
    return ['neither a cluster file, nor a part of one, nor a manifest'];
  if (checkedElsewhere.has(manifest['kind'])) return [];
  const gvk = { ...parseApiVersion(manifest['apiVersion']), kind: manifest['kind'] };
  if (kindOf(gvk) === undefined) return [`there is no kind ${gvk.kind} in ${manifest['apiVersion']}`];
  try {
    const options = { type: 'application/json', expected: gvk, fieldValidation: 'Strict' } as const;
    const { object } = decodeObject<KubeObject>(JSON.stringify(manifest), options);
    // the namespace is that of the user's context
    return validateObject(gvk, applyDefaults(gvk, object))
      .filter(({ field }) => field !== 'metadata.namespace')
      .map(({ field, message }) => `${field}: ${message}`);
  } catch (error) {
    if (isStatus(error)) return [error.status.message ?? ''];
    throw error;
  }
}

async function clusterProblems(cluster: object): Promise<readonly string[]> {
  let spec;
  try {
    ({ spec } = parseClusterFile(JSON.stringify(cluster), 'cluster.yaml'));
  } catch (error) {
    if (error instanceof WiringError) return error.faults.map(describeFault);
    throw error;
  }
  const problems: string[] = [];
  for (const section of sections)
    for (const { placement, path } of placementsOf(spec, section)) {
      if (isPath(placement.use)) continue;
      const builtIn = builtin.find(({ id }) => id === placement.use);
      const loaded = builtIn === undefined ? await loadPlugin(placement.use, undefined) : { plugin: builtIn };
      if ('fault' in loaded) problems.push(describeFault(loaded.fault));
      else if (loaded.plugin.provides.token !== section.slot.token)
        problems.push(`${path.join('.')}: ${placement.use} belongs to another section`);
      else problems.push(...issuesOf(loaded.plugin.config, placement.config, path.join('.')));
    }
  return problems;
}

function issuesOf(schema: z.core.$ZodType, value: unknown, at: string): readonly string[] {
  const { error } = z.safeParse(schema, value);
  return (error?.issues ?? []).map(({ path, message }) => `${[at, ...path].join('.')}: ${message}`);
}
