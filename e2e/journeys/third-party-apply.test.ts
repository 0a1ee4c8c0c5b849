import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Api, Item, PodItem } from '../harness/api.ts';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';

type Fields = Readonly<Record<string, unknown>>;
interface Managed extends Item {
  readonly metadata: Item['metadata'] & {
    readonly managedFields?: readonly { readonly manager: string; readonly operation: string; readonly fieldsV1: Fields }[];
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: Fields & { readonly replicas?: number };
}
interface JobItem extends Item {
  readonly status?: { readonly succeeded?: number; readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

const merge = { 'content-type': 'application/merge-patch+json' };
const jsonPatch = { 'content-type': 'application/json-patch+json' };
const applyPatch = { 'content-type': 'application/apply-patch+yaml' };

let api: Api;
const machine = Machine.use();
beforeAll(async () => {
  const cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
  ({ api } = cluster);
});

async function namespace(name: string): Promise<string> {
  await api.json('POST', '/api/v1/namespaces', { body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name } } });
  await api.until('the service account', `/api/v1/namespaces/${name}/serviceaccounts`, (all) => all.length > 0);
  return name;
}
const apply = (path: string, body: object, query: string): Promise<Answer> =>
  api.call('PATCH', `${path}?${query}`, { headers: applyPatch, body });
async function applied(path: string, body: object, query: string): Promise<Managed> {
  const { status, body: text } = await apply(path, body, query);
  expect([status, status < 300 ? '' : text]).toEqual([status < 300 ? status : 200, '']);
  return JSON.parse(text) as Managed;
}
const managersOf = ({ metadata }: Managed) =>
  (metadata.managedFields ?? []).map(({ manager, operation }) => `${manager} ${operation}`).sort();

describe('Flux', () => {
  const config = (data: Fields, labels: Fields = {}) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'settings', labels: { 'kustomize.toolkit.fluxcd.io/name': 'apps', ...labels } },
    data,
  });
  const force = 'fieldManager=kustomize-controller&force=true';

  it('detects drift with a dry-run apply and corrects it', async () => {
    const maps = `/api/v1/namespaces/${await namespace('flux-drift')}/configmaps`;
    const path = `${maps}/settings`;
    // a dry run of an object that does not exist creates nothing
    expect((await applied(path, config({ a: '1' }), `${force}&dryRun=All`)).data).toEqual({ a: '1' });
    expect((await api.call('GET', path)).status).toBe(404);
    const first = await applied(path, config({ a: '1' }), force);
    const same = await applied(path, config({ a: '1' }), `${force}&dryRun=All`);
    expect(same.metadata.resourceVersion).toBe(first.metadata.resourceVersion);
    const edited = await api.json<Managed>('PATCH', `${path}?fieldManager=kubectl-edit`, { headers: merge, body: { data: { a: '2' } } });
    const drift = await applied(path, config({ a: '1' }), `${force}&dryRun=All`);
    expect([edited.data, drift.data, (await api.get<Managed>(path)).data]).toEqual([{ a: '2' }, { a: '1' }, { a: '2' }]);
    const corrected = await applied(path, config({ a: '1' }), force);
    expect(corrected.data).toEqual({ a: '1' });
    // the editor lost the only field that it owned
    expect(managersOf(corrected)).toEqual(['kustomize-controller Apply']);
  });

  it('gets a conflict without force, and removes what it no longer applies', async () => {
    const path = `/api/v1/namespaces/${await namespace('flux-conflict')}/configmaps/settings`;
    await applied(path, config({ a: '1', b: '1' }), force);
    const conflict = await apply(path, config({ a: '2' }), 'fieldManager=other');
    expect(conflict.status).toBe(409);
    expect(JSON.parse(conflict.body)).toMatchObject({
      reason: 'Conflict',
      message: 'Apply failed with 1 conflict: conflict with "kustomize-controller": .data.a',
      details: { causes: [{ reason: 'FieldManagerConflict', field: '.data.a', message: 'conflict with "kustomize-controller"' }] },
    });
    expect((await applied(path, config({ b: '1' }), force)).data).toEqual({ b: '1' });
  });

  it('takes over what kubectl applied on the client side, by a JSON patch of the managed fields', async () => {
    const maps = `/api/v1/namespaces/${await namespace('flux-migrate')}/configmaps`;
    const path = `${maps}/settings`;
    const lastApplied = JSON.stringify(config({ a: '1', b: '1' }));
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': lastApplied };
    const body = { ...config({ a: '1', b: '1' }), metadata: { ...config({}).metadata, annotations } };
    const created = await api.json<Managed>('POST', `${maps}?fieldManager=kubectl-client-side-apply`, { body });
    const [entry] = created.metadata.managedFields ?? [];
    const { resourceVersion } = created.metadata;
    const adopted = { ...entry, manager: 'kustomize-controller', operation: 'Apply' };
    const patch = [
      { op: 'replace', path: '/metadata/managedFields', value: [adopted] },
      { op: 'remove', path: '/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration' },
      { op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion },
    ];
    const migrated = await api.json<Managed>('PATCH', path, { headers: jsonPatch, body: patch });
    expect(managersOf(migrated)).toEqual(['kustomize-controller Apply']);
    // without the migration the field of the other manager would stay
    expect((await applied(path, config({ a: '1' }), force)).data).toEqual({ a: '1' });
    const outdated = await api.call('PATCH', path, { headers: jsonPatch, body: patch.slice(2) });
    expect(outdated.status).toBe(409);
  });

  it('strips the managed fields of an object', async () => {
    const path = `/api/v1/namespaces/${await namespace('flux-strip')}/configmaps/settings`;
    await applied(path, config({ a: '1' }), force);
    const stripped = await api.json<Managed>('PATCH', path, { headers: merge, body: { metadata: { managedFields: [{}] } } });
    expect(stripped.metadata.managedFields).toBeUndefined();
    const again = await applied(path, config({ a: '1' }), 'fieldManager=kustomize-controller');
    expect(managersOf(again)).toEqual(['before-first-apply Update', 'kustomize-controller Apply']);
  });

  it('leaves the replicas to the autoscaler when it does not apply them', async () => {
    const path = `/apis/apps/v1/namespaces/${await namespace('flux-replicas')}/deployments/web`;
    const labels = { app: 'web' };
    const template = { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'host', command: ['sleep', '3600'] }] } };
    const web = (more: object) => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'web' },
      spec: { selector: { matchLabels: labels }, template, ...more },
    });
    await applied(path, web({ replicas: 1 }), force);
    await api.json('PATCH', `${path}/scale?fieldManager=autoscaler`, { headers: merge, body: { spec: { replicas: 2 } } });
    const left = await applied(path, web({}), force);
    expect(left.spec?.replicas).toBe(2);
    expect(managersOf(left)).toContain('autoscaler Update');
  });
});

describe('Helm', () => {
  const labels = (version: number, status: string) => ({ owner: 'helm', name: 'shop', status, version: String(version) });
  /** A release record as Helm stores it: gzipped JSON, encoded twice. */
  const release = (version: number, status: string) => ({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: `sh.helm.release.v1.shop.v${version}`, labels: labels(version, status) },
    type: 'helm.sh/release.v1',
    data: {
      release: Buffer.from(gzipSync(JSON.stringify({ name: 'shop', version, info: { status } })).toString('base64')).toString('base64'),
    },
  });
  const hooked = (name: string, hook: string, command: readonly string[]) => ({
    metadata: { name, annotations: { 'helm.sh/hook': hook, 'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded' } },
    spec: { restartPolicy: 'Never', terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image: 'host', command }] },
  });
  const manifest = (data: Fields) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'shop' }, data });
  const asHelm = 'fieldManager=helm&force=false&fieldValidation=Strict';

  it('installs with a hook, upgrades, rolls back and uninstalls', async () => {
    const at = await namespace('helm-release');
    const secrets = `/api/v1/namespaces/${at}/secrets`;
    const map = `/api/v1/namespaces/${at}/configmaps/shop`;
    await api.json('POST', secrets, { body: release(1, 'pending-install') });
    await runHook(at, hooked('migrate', 'pre-install', ['sh', '-c', 'exit 0']));
    await applied(map, manifest({ image: 'one', once: 'yes' }), asHelm);
    await setStatus(secrets, 1, 'deployed');
    // upgrade: a field goes, one changes
    await api.json('POST', secrets, { body: release(2, 'pending-upgrade') });
    expect((await applied(map, manifest({ image: 'two' }), asHelm)).data).toEqual({ image: 'two' });
    await setStatus(secrets, 1, 'superseded');
    await setStatus(secrets, 2, 'deployed');
    const history = await api.get<{ readonly items: readonly Item[] }>(
      `${secrets}?labelSelector=name%3Dshop,owner%3Dhelm,status%3Ddeployed`,
    );
    expect(history.items.map(({ metadata }) => metadata.name)).toEqual(['sh.helm.release.v1.shop.v2']);
    // rollback: the manifest of the first release
    await api.json('POST', secrets, { body: release(3, 'pending-rollback') });
    expect((await applied(map, manifest({ image: 'one', once: 'yes' }), asHelm)).data).toEqual({ image: 'one', once: 'yes' });
    const typed = await api.get<{ readonly items: readonly Item[] }>(`${secrets}?fieldSelector=type%3Dhelm.sh%2Frelease.v1`);
    expect(typed.items).toHaveLength(3);
    await api.json('DELETE', map, { body: { propagationPolicy: 'Background' } });
    await api.json('DELETE', `${secrets}?labelSelector=owner%3Dhelm,name%3Dshop`);
    expect((await api.get<{ readonly items: readonly Item[] }>(secrets)).items).toEqual([]);
  });

  it('rejects a release name that exists', async () => {
    const secrets = `/api/v1/namespaces/${await namespace('helm-name')}/secrets`;
    await api.json('POST', secrets, { body: release(1, 'deployed') });
    expect((await api.call('POST', secrets, { body: release(1, 'pending-install') })).status).toBe(409);
    // the type of a Secret never changes
    const body = { ...release(1, 'deployed'), type: 'Opaque' };
    expect((await api.call('PUT', `${secrets}/sh.helm.release.v1.shop.v1`, { body })).status).toBe(422);
  });

  it('runs a test pod and reports a failed one', async () => {
    const at = await namespace('helm-test');
    const pods = `/api/v1/namespaces/${at}/pods`;
    const phase = async (name: string, command: readonly string[]) => {
      await api.json('POST', pods, { body: { apiVersion: 'v1', kind: 'Pod', ...hooked(name, 'test', command) } });
      const isOver = (pod: PodItem | undefined) => ['Succeeded', 'Failed'].includes(pod?.status.phase ?? '');
      const [pod] = await api.until<PodItem>(`${name} is over`, `${pods}?fieldSelector=metadata.name%3D${name}`, ([one]) => isOver(one));
      return pod?.status.phase;
    };
    expect(await phase('passes', ['sh', '-c', 'echo works'])).toBe('Succeeded');
    expect(await phase('fails', ['sh', '-c', 'exit 3'])).toBe('Failed');
    expect((await api.call('GET', `${pods}/passes/log`)).body).toBe('works\n');
  });

  async function setStatus(secrets: string, version: number, status: string): Promise<void> {
    const path = `${secrets}/sh.helm.release.v1.shop.v${version}`;
    const stored = await api.get<Managed>(path);
    const { resourceVersion } = stored.metadata;
    const next = release(version, status);
    await api.json('PUT', path, { body: { ...next, metadata: { ...next.metadata, resourceVersion } } });
  }

  /** Runs a hook's Job, follows it to its end and deletes it with its pods. */
  async function runHook(at: string, { metadata, spec }: ReturnType<typeof hooked>): Promise<void> {
    const jobs = `/apis/batch/v1/namespaces/${at}/jobs`;
    await api.json('POST', jobs, {
      body: { apiVersion: 'batch/v1', kind: 'Job', metadata, spec: { backoffLimit: 0, template: { spec } } },
    });
    await api.until<JobItem>('the hook succeeded', `${jobs}?fieldSelector=metadata.name%3D${metadata.name}`, ([job]) =>
      (job?.status?.conditions ?? []).some(({ type, status }) => type === 'Complete' && status === 'True'),
    );
    await api.json('DELETE', `${jobs}/${metadata.name}`, { body: { propagationPolicy: 'Background' } });
    await api.until('the pods of the hook are gone', `/api/v1/namespaces/${at}/pods`, (pods) => pods.length === 0);
  }
});
