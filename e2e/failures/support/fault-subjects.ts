import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Api, Item, PodItem } from '../../harness/api.ts';
import type { ClusterSpec } from '../../harness/composition.ts';
import { root } from '../../harness/oarlock.ts';
import { until, untilValue } from '../../harness/until.ts';

export const fixture = (name: string) => join(root, 'packages', 'testing', 'test', 'support', 'faulty-plugins', `${name}.ts`);
export const core = '/api/v1/namespaces/default';

/** A plugin under test: how a request or object reaches it, and how the effect of a working plugin is seen. */
export interface Subject {
  /** Name of the placement and of the switch. */
  readonly name: string;
  readonly file: string;
  readonly section: string;
  readonly options?: Readonly<Record<string, unknown>>;
  readonly config?: Readonly<Record<string, unknown>>;
  /** Makes the cluster call the plugin. Returns the answer to the caller, for slots that requests wait for. */
  trigger(context: Context): Promise<string>;
  /** The answer to `trigger` while the plugin hangs, for slots that requests wait for. */
  readonly rejection?: RegExp;
  /** Resolves when the work of the plugin for the last `trigger` is done. */
  done?(context: Context): Promise<unknown>;
}
export interface Context {
  readonly api: Api;
  readonly switches: string;
  readonly round: string;
}

const statusOf = ({ status, body }: { readonly status: number; readonly body: string }): string =>
  status < 300 ? 'ok' : `${status} ${(JSON.parse(body) as { message?: string }).message ?? ''}`;
export const configMap = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, annotations },
});
const podOf = (name: string, more: Readonly<Record<string, unknown>> = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'main', image: 'any' }], terminationGracePeriodSeconds: 0, ...more },
});

const volumeOf = (driver: string) => ({
  containers: [{ name: 'main', image: 'any', volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
  volumes: [{ name: 'data', csi: { driver } }],
});

/** Creates an object again. */
async function recreate(api: Api, resource: string, body: { readonly metadata: { readonly name: string } }): Promise<string> {
  const { name } = body.metadata;
  await until(`${name} of the last round is gone`, async () => {
    const { status } = await api.call('DELETE', `${core}/${resource}/${name}?gracePeriodSeconds=0`);
    return status === 404;
  });
  return statusOf(await api.call('POST', `${core}/${resource}`, { body }));
}

/** Sets the annotation `wanted` of a ConfigMap, which is created if it does not exist. */
async function annotate(name: string, { api, round }: Context): Promise<string> {
  const patched = await api.call('PATCH', `${core}/configmaps/${name}`, {
    body: { metadata: { annotations: { wanted: round } } },
    headers: { 'content-type': 'application/merge-patch+json' },
  });
  if (patched.status !== 404) return statusOf(patched);
  return statusOf(await api.call('POST', `${core}/configmaps`, { body: configMap(name, { wanted: round }) }));
}

const podRuns =
  (name: string) =>
  ({ api }: Context) =>
    untilValue(
      `${name} runs`,
      () => api.get<PodItem>(`${core}/pods/${name}`),
      ({ status }) => status.phase === 'Running',
    );

const scheduling = (point: string): Subject => ({
  name: `scheduling-${point.toLowerCase()}`,
  file: 'scheduling',
  section: 'scheduling',
  config: { point },
  trigger: ({ api }) => recreate(api, 'pods', podOf(`scheduling-${point.toLowerCase()}`)),
  done: podRuns(`scheduling-${point.toLowerCase()}`),
});

const controller = (placement: string): Subject => ({
  name: `controller-${placement}`,
  file: 'controller',
  section: 'controllers',
  options: { placement },
  trigger: (context) => annotate(`controller-${placement}`, context),
  done: ({ api, round }) =>
    untilValue(
      'the controller reconciled',
      () => api.get<Item>(`${core}/configmaps/controller-${placement}`),
      ({ metadata }) => metadata.annotations?.['reconciled'] === round,
    ),
});

export const admission = (placement: string): Subject => ({
  name: `admission-${placement}`,
  file: 'admission',
  section: 'admission',
  options: { placement },
  trigger: ({ api }) => recreate(api, 'configmaps', configMap(`admission-${placement}`)),
  rejection: new RegExp(`^500 Internal error occurred: admission plugin "admission-${placement}" failed: it did not answer within 1000 ms`),
});

const authn = (placement: string): Subject => ({
  name: `authn-${placement}`,
  file: 'authn',
  section: 'authn',
  options: { placement },
  trigger: async ({ api }) => {
    const { status } = await api.call('GET', '/version', { headers: { authorization: `Bearer authn-${placement}` } });
    return String(status);
  },
});

const authz = (placement: string): Subject => ({
  name: `authz-${placement}`,
  file: 'authz',
  section: 'authz',
  options: { placement },
  trigger: async ({ api }) => statusOf(await api.call('GET', '/api', { headers: { 'impersonate-user': `authz-${placement}` } })),
  rejection: new RegExp(`^500 Internal error occurred: authorization plugin "authz-${placement}" failed: it did not answer within 1000 ms`),
});

const audit = (placement: string): Subject => ({
  name: `audit-${placement}`,
  file: 'audit',
  section: 'audit',
  options: { placement },
  // a sink that fails does not fail requests
  trigger: async ({ api }) => statusOf(await api.call('POST', `${core}/configmaps?dryRun=All`, { body: configMap(`audit-${placement}`) })),
});

const cloud = (placement: string): Subject => {
  const service = placement === 'host' ? 'cloud' : `cloud-${placement}`;
  return {
    name: service,
    file: 'cloud',
    section: 'cloud',
    options: { placement },
    trigger: ({ api }) =>
      recreate(api, 'services', {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: service },
        spec: { type: 'LoadBalancer', ports: [{ port: 80 }] },
      } as never),
    done: ({ api }) =>
      untilValue(
        'the load balancer has its address',
        () => api.get<{ readonly status: { readonly loadBalancer?: { readonly ingress?: unknown[] } } }>(`${core}/services/${service}`),
        ({ status }) => status.loadBalancer?.ingress !== undefined,
      ),
  };
};

/** A plugin that takes part in the start of a pod of its name. */
const onNode = (name: string): Subject => ({
  name,
  file: name,
  section: name,
  trigger: ({ api }) => recreate(api, 'pods', podOf(name)),
  done: podRuns(name),
});

/** A plugin that receives the Services of the cluster. */
const applied = (name: 'proxy' | 'dns'): Subject => ({
  name,
  file: name,
  section: name,
  trigger: ({ api, round }) =>
    recreate(api, 'services', {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: `${name}-${round}` },
      spec: { ports: [{ port: 80 }] },
    } as never),
  done: ({ switches, round }) =>
    untilValue(
      `${name} has applied the Service`,
      async () => (existsSync(join(switches, `${name}-applied`)) ? readFile(join(switches, `${name}-applied`), 'utf8') : ''),
      (text) => text.includes(`${name}-${round}`),
    ),
});

/** The plugins of one cluster. */
export const together: readonly Subject[] = [
  ...['host', 'thread', 'process'].flatMap((placement) => [
    admission(placement),
    controller(placement),
    audit(placement),
    authn(placement),
    authz(placement),
  ]),
  ...['filter', 'reserve', 'permit', 'preBind'].map(scheduling),
  {
    name: 'storage',
    file: 'storage',
    section: 'storage',
    trigger: (context) => annotate('storage', context),
    rejection: /^50\d .*plugin "storage", commit: it did not answer within 1000 ms/,
  },
  {
    name: 'paths',
    file: 'paths',
    section: 'paths',
    trigger: async ({ api }) => statusOf(await api.call('GET', '/faulty')),
    rejection: /^500 .*it did not answer within 1000 ms/,
  },
  {
    name: 'runtime',
    file: 'runtime',
    section: 'runtimes',
    trigger: ({ api }) => recreate(api, 'pods', podOf('runtime')),
    done: podRuns('runtime'),
  },
  cloud('host'),
  ...['network', 'policy'].map((name): Subject => onNode(name)),
  {
    name: 'volume',
    file: 'volume',
    section: 'volumes',
    trigger: ({ api }) => recreate(api, 'pods', podOf('volume', volumeOf('volume'))),
    done: podRuns('volume'),
  },
  applied('proxy'),
  applied('dns'),
];

/** A cluster has one cloud provider: each of these needs a cluster of its own. */
export const alone: readonly Subject[] = ['thread', 'process'].map(cloud);
export const subjects: readonly Subject[] = [...together, ...alone];

/** The placements of subjects, in the sections of a cluster.yaml. */
export function specOf(chosen: readonly Subject[], switches: string): ClusterSpec {
  const place = ({ name, file, options, config }: Subject) => ({
    use: fixture(file),
    name,
    deadlineMs: 1_000,
    ...options,
    config: { switches, name, ...config },
  });
  const single = new Set(['storage', 'cloud', 'network', 'policy', 'proxy', 'dns']);
  const sections: Record<string, unknown> = {};
  for (const subject of chosen) {
    const { section } = subject;
    if (single.has(section)) sections[section] = place(subject);
    else sections[section] = [...((sections[section] as unknown[] | undefined) ?? []), place(subject)];
  }
  return {
    ...sections,
    authn: [...((sections['authn'] as never[] | undefined) ?? []), 'authn-client-certificate', 'authn-service-account'],
    authz: [...((sections['authz'] as never[] | undefined) ?? []), 'authz-masters', 'authz-node', 'authz-rbac'],
    settings: { kubelet: { port: 0 } },
  } as ClusterSpec;
}

/** The plugins that run in the process of the cluster. */
export const inHost = subjects.filter(({ options }) => options?.['placement'] !== 'thread' && options?.['placement'] !== 'process');
