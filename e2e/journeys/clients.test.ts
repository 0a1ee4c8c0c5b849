import { PassThrough, Writable } from 'node:stream';
import {
  AppsV1Api,
  CoreV1Api,
  CustomObjectsApi,
  Exec,
  KubeConfig,
  KubernetesObjectApi,
  Log,
  makeInformer,
  PatchStrategy,
  setHeaderOptions,
  VersionApi,
  Watch,
  type V1ConfigMap,
  type V1Status,
} from '@kubernetes/client-node';
import { beforeAll, describe, expect, it } from 'vitest';
import { composition } from '../harness/composition.ts';
import { Machine } from '../harness/machine.ts';
import type { PodItem } from '../harness/api.ts';
import { untilValue } from '../harness/until.ts';

function signal(): { readonly received: Promise<void>; readonly give: () => void } {
  let give: () => void = () => {};
  const received = new Promise<void>((resolve) => {
    give = resolve;
  });
  return { received, give };
}

/** The official JavaScript client, used as its documentation shows. */
describe('@kubernetes/client-node', () => {
  const machine = Machine.use();
  const namespace = 'node-client';
  const config = new KubeConfig();
  let core: CoreV1Api;
  beforeAll(async () => {
    const cluster = await machine.cluster({ spec: composition({ storage: 'memory', runtime: 'process', network: 'host' }) });
    config.loadFromFile(cluster.kubeconfig);
    core = config.makeApiClient(CoreV1Api);
    await core.createNamespace({ body: { metadata: { name: namespace } } });
    await core.createNamespacedPod({
      namespace,
      body: {
        metadata: { name: 'shell' },
        spec: {
          terminationGracePeriodSeconds: 1,
          containers: [{ name: 'main', image: 'host', command: ['sh', '-c', 'echo started; exec sleep 3600'] }],
        },
      },
    });
    await cluster.api.until<PodItem>('the pod runs', `/api/v1/namespaces/${namespace}/pods`, ([pod]) => pod?.status.phase === 'Running');
  });

  const map = (name: string, data: Record<string, string>): V1ConfigMap => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace },
    data,
  });

  it('creates, gets, lists in pages, replaces and deletes', async () => {
    expect((await config.makeApiClient(VersionApi).getCode()).minor).toBe('36');
    for (let i = 0; i < 5; i++) await core.createNamespacedConfigMap({ namespace, body: map(`page-${i}`, { i: String(i) }) });
    const names: (string | undefined)[] = [];
    let token: string | undefined;
    do {
      const { items, metadata } = await core.listNamespacedConfigMap({ namespace, limit: 2, ...(token && { _continue: token }) });
      names.push(...items.map((item) => item.metadata?.name));
      token = metadata?._continue;
    } while (token);
    expect(names.filter((name) => name?.startsWith('page-'))).toHaveLength(5);
    const read = await core.readNamespacedConfigMap({ namespace, name: 'page-0' });
    expect(read.metadata?.creationTimestamp).toBeInstanceOf(Date);
    await core.replaceNamespacedConfigMap({ namespace, name: 'page-0', body: { ...read, data: { i: 'new' } } });
    await expect(
      core.replaceNamespacedConfigMap({ namespace, name: 'page-0', body: { ...read, data: { i: 'old' } } }),
    ).rejects.toMatchObject({ code: 409 });
    await core.deleteCollectionNamespacedConfigMap({ namespace, fieldSelector: 'metadata.name!=kube-root-ca.crt' });
    await expect(core.readNamespacedConfigMap({ namespace, name: 'page-0' })).rejects.toMatchObject({ code: 404 });
  });

  it('patches with every patch type, and applies', async () => {
    const name = 'patched';
    await core.createNamespacedConfigMap({ namespace, body: map(name, { a: '1' }) });
    const patch = (body: object, strategy: string) =>
      core.patchNamespacedConfigMap(
        { namespace, name, body, fieldManager: 'node', force: strategy === PatchStrategy.ServerSideApply ? true : undefined } as never,
        setHeaderOptions('Content-Type', strategy),
      );
    await patch([{ op: 'add', path: '/data/b', value: '2' }], PatchStrategy.JsonPatch);
    await patch({ data: { c: '3' } }, PatchStrategy.MergePatch);
    await patch({ data: { d: '4' } }, PatchStrategy.StrategicMergePatch);
    const applied = await patch(map(name, { a: '9' }), PatchStrategy.ServerSideApply);
    expect(applied.data).toEqual({ a: '9', b: '2', c: '3', d: '4' });
    expect(applied.metadata?.managedFields?.some(({ manager, operation }) => manager === 'node' && operation === 'Apply')).toBe(true);
    const any = KubernetesObjectApi.makeApiClient(config);
    expect(await any.read({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace } })).toMatchObject({ data: applied.data });
  });

  it('watches, and keeps an informer current', async () => {
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const seen: string[] = [];
    const ended = signal();
    const abort = await new Watch(config).watch(
      path,
      { fieldSelector: 'metadata.name=watched' },
      (type: string, object: V1ConfigMap) => {
        seen.push(`${type} ${object.metadata?.name}`);
        if (type === 'DELETED') ended.give();
      },
      () => {},
    );
    const informer = makeInformer<V1ConfigMap>(config, path, () => core.listNamespacedConfigMap({ namespace }));
    const gone = signal();
    const added = signal();
    informer.on('add', ({ metadata }) => metadata?.name === 'watched' && added.give());
    informer.on('delete', ({ metadata }) => metadata?.name === 'watched' && gone.give());
    await informer.start();
    await core.createNamespacedConfigMap({ namespace, body: map('watched', { a: '1' }) });
    await added.received;
    expect(informer.get('watched', namespace)?.data).toEqual({ a: '1' });
    await core.deleteNamespacedConfigMap({ namespace, name: 'watched' });
    await Promise.all([gone.received, ended.received]);
    expect(seen).toEqual(['ADDED watched', 'DELETED watched']);
    await informer.stop();
    abort.abort();
  });

  it('executes commands in a pod and reads its log', async () => {
    const output: Buffer[] = [];
    const stdout = new Writable({
      write(chunk: Buffer, _, done) {
        output.push(chunk);
        done();
      },
    });
    const stdin = new PassThrough();
    const status = await new Promise<V1Status>((resolve, reject) => {
      new Exec(config)
        .exec(namespace, 'shell', 'main', ['sh', '-c', 'read line; echo "got $line"; exit 3'], stdout, null, stdin, false, resolve)
        .catch(reject);
      stdin.end('hello\n');
    });
    expect(Buffer.concat(output).toString()).toBe('got hello\n');
    expect(status).toMatchObject({
      status: 'Failure',
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: '3' }] },
    });
    await untilValue(
      'its log',
      () => core.readNamespacedPodLog({ namespace, name: 'shell' }),
      (log) => log === 'started\n',
    );
    const followed = new PassThrough();
    const line = new Promise<string>((resolve) => {
      followed.once('data', (chunk: Buffer) => resolve(chunk.toString()));
    });
    const following = await new Log(config).log(namespace, 'shell', 'main', followed, { follow: true });
    expect(await line).toBe('started\n');
    following.abort();
  });

  it('scales, and discovers kinds of CustomResourceDefinitions', async () => {
    const apps = config.makeApiClient(AppsV1Api);
    const spec = {
      replicas: 0,
      selector: { matchLabels: { a: 'b' } },
      template: { metadata: { labels: { a: 'b' } }, spec: { containers: [{ name: 'c', image: 'host' }] } },
    };
    await apps.createNamespacedDeployment({ namespace, body: { metadata: { name: 'web' }, spec } });
    const scale = await apps.readNamespacedDeploymentScale({ namespace, name: 'web' });
    expect(scale).toMatchObject({ kind: 'Scale', spec: {} });
    await apps.patchNamespacedDeploymentScale(
      { namespace, name: 'web', body: { spec: { replicas: 1 } } },
      setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
    );
    expect((await apps.readNamespacedDeployment({ namespace, name: 'web' })).spec?.replicas).toBe(1);
    const custom = config.makeApiClient(CustomObjectsApi);
    expect(
      await custom.listClusterCustomObject({ group: 'apiextensions.k8s.io', version: 'v1', plural: 'customresourcedefinitions' }),
    ).toMatchObject({ items: [] });
  });
});
