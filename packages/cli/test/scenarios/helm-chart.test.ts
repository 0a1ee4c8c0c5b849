import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { z } from 'zod';
import { clusterSchema } from '@oarlock/cluster/cluster-file/cluster-schema';
import { renderChart } from '../support/helm-chart.ts';

const packaging = fileURLToPath(new URL('../../../../packaging', import.meta.url));
const read = (...path: readonly string[]) => readFileSync(join(packaging, ...path), 'utf8');
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: object };
  readonly data?: Readonly<Record<string, string>>;
}
type Values = Record<string, unknown>;

const render = (values: Values = {}, release?: string) =>
  renderChart(join(packaging, 'helm', 'oarlock'), { values, ...(release !== undefined && { release }) });
const kindOf = (manifests: readonly Manifest[], kind: string) => manifests.find((each) => each.kind === kind) as Manifest;
const compositionOf = (manifests: readonly Manifest[]) =>
  parse(kindOf(manifests, 'ConfigMap').data?.['cluster.yaml'] ?? '') as {
    readonly spec: { readonly server: { readonly names: string[] } };
  };

/** Removes what a chart has in addition to a kustomization: labels, the pull policy, and the checksum of the composition. */
function plain(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value, (key, inner: unknown) =>
      ['labels', 'matchLabels', 'selector', 'imagePullPolicy', 'annotations'].includes(key) ? undefined : inner,
    ),
  );
}

describe('the chart', () => {
  it('renders the objects of the kustomization with the default values', () => {
    const manifests = render();
    const kustomized = parseAllDocuments(read('kubernetes', 'control-plane.yaml')).map((each) => each.toJS() as Manifest);
    for (const kind of ['Service', 'StatefulSet'])
      expect(plain(kindOf(manifests, kind))).toEqual(
        plain(
          JSON.parse(
            JSON.stringify(kindOf(kustomized, kind))
              .replace('"image":"oarlock"', '"image":"oarlock:0.1.0"')
              .replace('"spec":{"selector"', '"spec":{"type":"ClusterIP","selector"'),
          ),
        ),
      );
    expect(compositionOf(manifests)).toEqual({ ...(parse(read('kubernetes', 'cluster.yaml')) as object), metadata: { name: 'oarlock' } });
  });

  it('renders every value', () => {
    const values = {
      image: { repository: 'registry.example/oarlock', tag: 'sha-1' },
      imagePullSecrets: [{ name: 'pull' }],
      fullnameOverride: 'virtual',
      spec: { storage: { use: 'storage-etcd', config: { endpoints: ['https://etcd:2379'] } }, featureGates: {} },
      extraNames: ['kube.example'],
      clusterDomain: 'cluster.example',
      service: { type: 'LoadBalancer', port: 6443, annotations: { a: 'b' } },
      persistence: { size: '5Gi', storageClassName: 'fast' },
      resources: { limits: { memory: '1Gi' } },
      podAnnotations: { c: 'd' },
      podLabels: { e: 'f' },
      nodeSelector: { g: 'h' },
      tolerations: [{ key: 'i', operator: 'Exists' }],
      affinity: { nodeAffinity: {} },
      priorityClassName: 'high',
    };
    expect(Object.keys(values).sort()).toEqual(Object.keys(parse(read('helm', 'oarlock', 'values.yaml')) as object).sort());
    const manifests = render(values, 'team-a');
    const text = stringify(manifests);
    for (const expected of [
      'registry.example/oarlock:sha-1',
      'LoadBalancer',
      'storageClassName: fast',
      'storage: 5Gi',
      'priorityClassName: high',
    ])
      expect(text).toContain(expected);
    for (const expected of [
      'c: d',
      'e: f',
      'g: h',
      'a: b',
      'nodeAffinity',
      '- name: pull',
      'operator: Exists',
      'port: 6443',
      'memory: 1Gi',
    ])
      expect(text).toContain(expected);
    expect(manifests.map(({ metadata }) => metadata.name)).toEqual(['virtual', 'virtual', 'virtual']);
    const composition = compositionOf(manifests);
    expect(composition.spec).toMatchObject({ roles: ['apiserver', 'controllers', 'scheduler'], storage: { use: 'storage-etcd' } });
    expect(composition.spec.server.names).toEqual([
      ...['virtual', 'virtual.tenant', 'virtual.tenant.svc', 'virtual.tenant.svc.cluster.example', 'kube.example'],
    ]);
  });

  it('has a composition that a cluster accepts, and replaces the pod when it changes', () => {
    expect(() => clusterSchema.parse(compositionOf(render()))).not.toThrow();
    const checksum = (values: Values) => /checksum\/composition: (\w{64})/.exec(stringify(render(values)))?.[1];
    expect(checksum({})).toMatch(/^\w{64}$/);
    expect(checksum({ extraNames: ['a'] })).not.toBe(checksum({}));
    expect(checksum({ service: { port: 444 } })).toBe(checksum({}));
  });

  it('selects the pods of its release only', () => {
    const selector = (release: string) =>
      (kindOf(render({}, release), 'Service') as unknown as { spec: { selector: object } }).spec.selector;
    expect(selector('a')).toEqual({ 'app.kubernetes.io/name': 'oarlock', 'app.kubernetes.io/instance': 'a' });
    expect(selector('b')).not.toEqual(selector('a'));
  });
});

describe('the schema of the values', () => {
  const schema = z.fromJSONSchema(JSON.parse(read('helm', 'oarlock', 'values.schema.json')) as never);
  const defaults = parse(read('helm', 'oarlock', 'values.yaml')) as Values;
  const accepts = (more: Values) => schema.safeParse({ ...defaults, ...more }).success;

  it('accepts the defaults and names every value', () => {
    expect(accepts({})).toBe(true);
    const { properties } = JSON.parse(read('helm', 'oarlock', 'values.schema.json')) as { readonly properties: object };
    expect(
      Object.keys(properties)
        .filter((key) => key !== 'global')
        .sort(),
    ).toEqual(Object.keys(defaults).sort());
  });

  it.each<Values>([
    { imagee: {} },
    { image: { repository: '' } },
    { service: { type: 'Cluster', port: 443 } },
    { service: { type: 'ClusterIP', port: 0 } },
    { persistence: { size: 'big' } },
    { fullnameOverride: 'Not_A_Name' },
    { spec: { roles: ['apiserver'] } },
    { spec: { roles: ['scheduler'], storage: 'storage-memory' } },
    { spec: { roles: ['apiserver'], storage: 'storage-memory', server: {} } },
    { extraNames: 'kube.example' },
  ])('rejects %j', (more) => {
    expect(accepts(more)).toBe(false);
  });
});

it('the chart is complete: each template is rendered, and its versions are those of the packages', () => {
  expect(readdirSync(join(packaging, 'helm', 'oarlock', 'templates')).sort()).toEqual(
    ['NOTES.txt', '_helpers.tpl', 'configmap.yaml', 'service.yaml', 'statefulset.yaml'].sort(),
  );
  const { version, appVersion } = parse(read('helm', 'oarlock', 'Chart.yaml')) as Readonly<Record<string, string>>;
  const { version: released } = JSON.parse(readFileSync(join(packaging, '..', 'package.json'), 'utf8')) as { readonly version: string };
  expect({ version, appVersion }).toEqual({ version: released, appVersion: released });
});
