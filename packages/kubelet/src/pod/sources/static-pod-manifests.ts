import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { applyDefaults } from '@oarlock/api/defaulting/apply-defaults';
import { isObject } from '@oarlock/api/json/json';
import { pods as podKind } from '@oarlock/api/resources';
import { parseBody, conformObject } from '@oarlock/api/serializer/serializer';
import type { Pod } from '@oarlock/api/types/core-v1';
import { validateObject } from '@oarlock/api/validation/validate-object';
import { clientTimeout, goErrorText, requestErrorText } from '@oarlock/primitives/net/go-error-text';
import { errorText } from '@oarlock/primitives/error-text';
import { configHashAnnotation, configSeenAnnotation, configSourceAnnotation } from '../../pod-util/config-source.ts';

/** The manifest of one static pod. */
export interface StaticPodManifest {
  readonly pod: Pod;
  readonly hash: string;
}
export interface ManifestReadResult {
  readonly found: readonly StaticPodManifest[];
  /** The files that could not be read, each with the reason. */
  readonly problems: readonly string[];
}

const maxManifestBytes = 10 * 1024 * 1024;
const gvk = { group: '', version: 'v1', kind: 'Pod' } as const;
/** Reads one manifest file, or all manifests of a directory. Skips files whose name starts with a dot. */
export async function readManifests(path: string, nodeName: string, now: string): Promise<ManifestReadResult> {
  const found: StaticPodManifest[] = [];
  const problems: string[] = [];
  for (const file of await filesAt(path)) {
    try {
      if ((await stat(file)).size > maxManifestBytes) throw new Error(`larger than ${maxManifestBytes} bytes`);
      found.push(...parse(await readFile(file), nodeName, { source: 'file', from: `${hostname()}:${file}`, now }));
    } catch (error) {
      problems.push(`${file}: ${errorText(error)}`);
    }
  }
  return { found, problems };
}

/** The URL from which manifests are fetched, and its request headers. */
export interface ManifestUrl {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Fetches the manifests at a URL: a Pod or a PodList. @throws Error if the request fails */
export async function fetchManifests({ url, headers, signal }: ManifestUrl, nodeName: string, now: string): Promise<ManifestReadResult> {
  const within = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
  const response = await fetch(url, { headers, signal: within }).catch((cause: unknown) => {
    signal.throwIfAborted();
    throw new Error(requestErrorText('GET', url, within.aborted ? clientTimeout : goErrorText(cause)), { cause });
  });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const bytes = await readBody(response, url);
  if (bytes.length === 0) throw new Error(`zero-length data received from ${url}`);
  return { found: parse(bytes, nodeName, { source: 'http', from: url, now }), problems: [] };
}

async function readBody({ body }: Response, url: string): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.length;
    if (size > maxManifestBytes) throw new Error(`${url} is larger than ${maxManifestBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
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

function parse(bytes: Buffer, nodeName: string, origin: Origin): readonly StaticPodManifest[] {
  const value = parseBody(bytes, /^\s*\{/.test(bytes.toString('utf8', 0, 256)) ? 'application/json' : 'application/yaml');
  if (!isObject(value)) throw new Error('no pod');
  const items = value['kind'] === 'PodList' && Array.isArray(value['items']) ? (value['items'] as unknown[]) : [value];
  return items.map((item) => manifest(item as object, nodeName, origin));
}

function manifest(item: object, nodeName: string, { source, from, now }: Origin): StaticPodManifest {
  const shaped = conformObject<Pod>(item as Pod, { expected: gvk });
  const { status: _status, ...declared } = shaped;
  const name = `${declared.metadata?.name ?? ''}-${nodeName}`.toLowerCase();
  const hash = createHash('md5')
    .update(JSON.stringify([nodeName, from, declared]))
    .digest('hex');
  const pod = applyDefaults(gvk, {
    ...declared,
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      ...declared.metadata,
      name,
      namespace: declared.metadata?.namespace ?? 'default',
      uid: hash,
      annotations: {
        ...declared.metadata?.annotations,
        [configHashAnnotation]: hash,
        [configSeenAnnotation]: now,
        [configSourceAnnotation]: source,
      },
    },
    spec: {
      ...declared.spec,
      containers: declared.spec?.containers ?? [],
      nodeName,
      // as upstream: taints do not evict static pods
      tolerations: [...(declared.spec?.tolerations ?? []), { operator: 'Exists', effect: 'NoExecute' }],
    },
  } as Pod);
  const problem = apiReference(pod);
  if (problem !== undefined) throw new Error(`static pods can not reference ${problem}`);
  const [error] = validateObject(podKind, pod);
  if (error !== undefined) throw new Error(`${error.field}: ${error.message}`);
  return { pod, hash };
}

/** Returns the kind of API object that the pod references, which static pods must not do; undefined if the pod references none. */
function apiReference({ spec }: Pod): string | undefined {
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
