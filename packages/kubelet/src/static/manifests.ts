import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { applyDefaults } from '@oarlock/api/defaulting';
import { isObject } from '@oarlock/api/json';
import { pods as podKind } from '@oarlock/api/resources';
import { parseBody, shapeObject } from '@oarlock/api/serializer';
import type { Pod } from '@oarlock/api/types/core-v1';
import { validateObject } from '@oarlock/api/validation';
import { configHash, configSeen, configSource } from './annotations.ts';

/** One pod that is run without being asked for by the API. */
export interface Manifest {
  readonly pod: Pod;
  readonly hash: string;
}
export interface Manifests {
  readonly found: readonly Manifest[];
  /** What could not be read, and why. */
  readonly problems: readonly string[];
}

const largest = 10 * 1024 * 1024;
const gvk = { group: '', version: 'v1', kind: 'Pod' } as const;
const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

/** The manifests of a directory, or of one file. What begins with a dot is left alone. */
export async function readManifests(path: string, nodeName: string, now: string): Promise<Manifests> {
  const found: Manifest[] = [];
  const problems: string[] = [];
  for (const file of await filesAt(path)) {
    try {
      if ((await stat(file)).size > largest) throw new Error(`larger than ${largest} bytes`);
      found.push(...parse(await readFile(file), nodeName, { source: 'file', from: `${hostname()}:${file}`, now }));
    } catch (error) {
      problems.push(`${file}: ${messageOf(error)}`);
    }
  }
  return { found, problems };
}

/** The manifests at a URL: one pod, or a list. @throws Error when it cannot be had */
export async function fetchManifests(
  url: string,
  headers: Readonly<Record<string, string>>,
  nodeName: string,
  now: string,
  signal: AbortSignal,
): Promise<Manifests> {
  const response = await fetch(url, { headers, signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const bytes = Buffer.from(await response.arrayBuffer());
  if (bytes.length === 0) throw new Error(`zero-length data received from ${url}`);
  if (bytes.length > largest) throw new Error(`${url} is larger than ${largest} bytes`);
  return { found: parse(bytes, nodeName, { source: 'http', from: url, now }), problems: [] };
}

async function filesAt(path: string): Promise<readonly string[]> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (found === undefined) return [];
  if (!found.isDirectory()) return [path];
  const entries = await readdir(path, { withFileTypes: true });
  return entries
    .filter((entry) => !entry.name.startsWith('.') && !entry.isDirectory())
    .map((entry) => join(path, entry.name))
    .sort();
}

interface Origin {
  readonly source: 'file' | 'http';
  readonly from: string;
  readonly now: string;
}

function parse(bytes: Buffer, nodeName: string, origin: Origin): readonly Manifest[] {
  const value = parseBody(bytes, /^\s*\{/.test(bytes.toString('utf8', 0, 256)) ? 'application/json' : 'application/yaml');
  if (!isObject(value)) throw new Error('no pod');
  const items = value['kind'] === 'PodList' && Array.isArray(value['items']) ? (value['items'] as unknown[]) : [value];
  return items.map((item) => manifest(item as object, nodeName, origin));
}

function manifest(item: object, nodeName: string, { source, from, now }: Origin): Manifest {
  const shaped = shapeObject<Pod>(item as Pod, { expected: gvk });
  const { status: _status, ...written } = shaped;
  const name = `${written.metadata?.name ?? ''}-${nodeName}`.toLowerCase();
  const hash = createHash('md5')
    .update(JSON.stringify([nodeName, from, written]))
    .digest('hex');
  const pod = applyDefaults(gvk, {
    ...written,
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...written.metadata,
      name,
      namespace: written.metadata?.namespace ?? 'default',
      uid: hash,
      annotations: { ...written.metadata?.annotations, [configHash]: hash, [configSeen]: now, [configSource]: source },
    },
    spec: {
      ...written.spec,
      containers: written.spec?.containers ?? [],
      nodeName,
      // nothing that happens to the node drives it away
      tolerations: [...(written.spec?.tolerations ?? []), { operator: 'Exists', effect: 'NoExecute' }],
    },
  } as Pod);
  const problem = needsApi(pod);
  if (problem !== undefined) throw new Error(`static pods can not reference ${problem}`);
  const [error] = validateObject(podKind, pod);
  if (error !== undefined) throw new Error(`${error.field}: ${error.message}`);
  return { pod, hash };
}

/** What a pod asks for that only the API has. */
function needsApi({ spec }: Pod): string | undefined {
  if (spec?.serviceAccountName) return 'serviceaccounts';
  if (spec?.ephemeralContainers?.length) return 'ephemeral containers';
  if (spec?.resourceClaims?.length) return 'resourceclaims';
  for (const { secret, configMap, persistentVolumeClaim, ephemeral, projected } of spec?.volumes ?? []) {
    if (secret) return 'secrets';
    if (configMap) return 'configmaps';
    if (persistentVolumeClaim || ephemeral) return 'persistentvolumeclaims';
    if (projected?.sources?.some((one) => one.serviceAccountToken ?? one.clusterTrustBundle ?? one.secret ?? one.configMap))
      return 'API objects';
  }
  for (const { env, envFrom } of [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])]) {
    if (envFrom?.length) return 'configmaps or secrets';
    if (env?.some(({ valueFrom }) => valueFrom?.configMapKeyRef ?? valueFrom?.secretKeyRef)) return 'configmaps or secrets';
  }
  return undefined;
}
