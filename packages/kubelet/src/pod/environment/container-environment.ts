import type {
  ConfigMap,
  Container,
  EnvFromSource,
  EnvVar,
  EphemeralContainer,
  FileKeySelector,
  Pod,
  Secret,
} from '@oarlock/api/types/core-v1';
import { envFileValue } from './env-file.ts';
import { expand, type ExpansionBudget } from '../../pod-util/expansion.ts';
import { fieldValue, resourceValue, type DownwardApiValues } from '../../pod-util/downward-api.ts';
import type { ObjectCache, ObjectReference } from '../../api-objects/object-cache.ts';
import type { Resources } from '../../pod-util/resources.ts';
import type { Variables } from './service-environment.ts';

export interface EnvironmentSources {
  readonly objects: Pick<ObjectCache, 'get'>;
  readonly services: Variables;
  readonly facts: DownwardApiValues;
  readonly allocatable: Resources;
  readonly expansionBudget?: ExpansionBudget;
  /**
   * Reads a file of one of the pod's volumes. Returns undefined if the file does not exist.
   * @throws Error if the path is not a regular file of the volume
   */
  fileIn(volume: string, path: string): Promise<string | undefined>;
  /** Called with the keys of an `envFrom` source that are not valid environment variable names. */
  invalidNames?(names: readonly string[], source: string): void;
}

/** Names of printable ASCII characters except `=` (KEP-4369). */
const variableName = /^[\x20-\x3c\x3e-\x7e]+$/;
const none: ReadonlyMap<string, string> = new Map();

/** Returns references to the ConfigMaps and Secrets that the `env` and `envFrom` of a pod's containers use. */
export function environmentObjectReferences(pod: Pod): readonly ObjectReference[] {
  const { initContainers = [], containers = [], ephemeralContainers = [] } = pod.spec ?? {};
  const found = new Map<string, ObjectReference>();
  const add = (kind: ObjectReference['kind'], name: string | undefined) => {
    if (name) found.set(`${kind}/${name}`, { kind, key: `${pod.metadata?.namespace}/${name}` });
  };
  for (const list of [initContainers, containers, ephemeralContainers]) {
    for (const { env, envFrom } of list) {
      for (const { configMapRef, secretRef } of envFrom ?? []) {
        add('ConfigMap', configMapRef?.name);
        add('Secret', secretRef?.name);
      }
      for (const { valueFrom } of env ?? []) {
        add('ConfigMap', valueFrom?.configMapKeyRef?.name);
        add('Secret', valueFrom?.secretKeyRef?.name);
      }
    }
  }
  return found.size === 0 ? [] : [...found.values()];
}

/**
 * Returns the environment variables of a container: those of `envFrom`, then `env`, then Services; an earlier assignment keeps its position.
 * @throws Error with the message of the container's waiting state, if a required source is missing or invalid
 */
export async function containerEnvironment(
  pod: Pod,
  container: Container | EphemeralContainer,
  sources: EnvironmentSources,
): Promise<Map<string, string>> {
  const result = new Map<string, string>();
  for (const source of container.envFrom ?? []) await addAll(result, { pod, envFromSource: source, sources });
  for (const variable of container.env ?? []) {
    const value =
      variable.valueFrom === undefined
        ? expand(variable.value ?? '', (name) => result.get(name) ?? sources.services.get(name), sources.expansionBudget)
        : await valueFrom(pod, { container, envVar: variable, sources });
    if (value !== undefined) result.set(variable.name, value);
  }
  for (const [name, value] of sources.services) if (!result.has(name)) result.set(name, value);
  return result;
}

async function addAll(
  result: Map<string, string>,
  {
    pod,
    envFromSource: { prefix = '', configMapRef, secretRef },
    sources,
  }: { readonly pod: Pod; readonly envFromSource: EnvFromSource; readonly sources: EnvironmentSources },
): Promise<void> {
  const reference = configMapRef ?? secretRef;
  const kind = configMapRef ? 'ConfigMap' : 'Secret';
  if (!reference) return;
  const name = reference.name ?? '';
  const object = await sources.objects.get(kind, `${pod.metadata?.namespace}/${name}`);
  if (object === undefined) {
    if (reference.optional) return;
    throw new Error(`${kind.toLowerCase()} "${name}" not found`);
  }
  const invalid: string[] = [];
  for (const [key, value] of dataOf(kind, object)) {
    if (variableName.test(prefix + key)) result.set(prefix + key, value);
    else invalid.push(key);
  }
  if (invalid.length > 0) sources.invalidNames?.(invalid.sort(), `${kind} ${pod.metadata?.namespace}/${name}`);
}

async function valueFrom(
  pod: Pod,
  {
    container,
    envVar: { valueFrom: from },
    sources,
  }: { readonly container: Container | EphemeralContainer; readonly envVar: EnvVar; readonly sources: EnvironmentSources },
): Promise<string | undefined> {
  if (from?.fieldRef) return fieldValue(pod, from.fieldRef, sources.facts);
  if (from?.resourceFieldRef)
    return resourceValue(pod, { selector: from.resourceFieldRef, self: container, allocatable: sources.allocatable });
  if (from?.fileKeyRef) return fileValue(from.fileKeyRef, sources);
  const selector = from?.configMapKeyRef ?? from?.secretKeyRef;
  const kind = from?.configMapKeyRef ? 'ConfigMap' : 'Secret';
  if (!selector) throw new Error('unsupported source of an environment variable');
  const key = `${pod.metadata?.namespace}/${selector.name ?? ''}`;
  const object = await sources.objects.get(kind, key);
  if (object === undefined) {
    if (selector.optional) return undefined;
    throw new Error(`${kind.toLowerCase()} "${selector.name ?? ''}" not found`);
  }
  const value = dataOf(kind, object).get(selector.key);
  if (value === undefined && !selector.optional) throw new Error(`couldn't find key ${selector.key} in ${kind} ${key}`);
  return value;
}

async function fileValue({ volumeName, path, key, optional }: FileKeySelector, sources: EnvironmentSources): Promise<string | undefined> {
  const text = await sources.fileIn(volumeName, path);
  if (text === undefined && !optional) throw new Error(`file ${JSON.stringify(path)} not found in volume "${volumeName}"`);
  let value: string | undefined;
  try {
    value = envFileValue(text ?? '', key);
  } catch (cause) {
    throw new Error(`couldn't parse env file ${JSON.stringify(path)} of volume "${volumeName}": ${(cause as Error).message}`, { cause });
  }
  if (value === undefined && !optional)
    throw new Error(`environment variable key ${JSON.stringify(key)} not found in file ${JSON.stringify(path)} of volume "${volumeName}"`);
  return value;
}

function dataOf(kind: 'ConfigMap' | 'Secret', object: ConfigMap | Secret): ReadonlyMap<string, string> {
  if (object.data === undefined) return none;
  const entries = Object.entries(object.data);
  return new Map(kind === 'ConfigMap' ? entries : entries.map(([key, value]) => [key, Buffer.from(value, 'base64').toString('utf8')]));
}
