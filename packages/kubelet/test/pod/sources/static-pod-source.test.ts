import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest';
import { kubeletConfig } from '../../../src/config/kubelet-config.ts';
import { Bench, isReady } from '../../support/bench.ts';

const yaml = (image: string, name = 'web') => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, namespace: kube-system, labels: { app: ${name} } }
spec:
  hostNetwork: true
  containers:
  - { name: app, image: "${image}" }
`;

describe('StaticPodSource', () => {
  const directory = join(mkdtempSync(join(tmpdir(), 'oarlock-static-')), 'manifests');
  const file = join(directory, 'web.yaml');
  const { staticPods } = kubeletConfig.parse({ nodeName: 'node-a', staticPods: { path: directory, everyMs: 1000 } });
  let bench: Bench;
  const mirror = (name = 'web-node-a'): Pod | undefined => bench.api.object(pods, { namespace: 'kube-system', name });
  // manifests are real files: advancing the simulated clock does not wait for their reads
  const until = (what: string, holds: () => boolean) =>
    expect.poll(async () => (await bench.clock.advance(500), holds()), { timeout: 120_000, interval: 10, message: what }).toBe(true);
  const running = async () => (await bench.runtime.listContainers({ state: 'RUNNING' })).map(({ image }) => image);

  beforeEach(() => {
    mkdirSync(directory, { recursive: true });
    writeFileSync(file, yaml('registry.test/app:1'));
    bench = new Bench({ config: { staticPods } });
  });
  afterEach(async () => {
    await bench.dispose();
    rmSync(directory, { recursive: true, force: true });
  });

  afterAll(() => rmSync(dirname(directory), { recursive: true, force: true }));

  it('runs static pods and creates mirror pods with their status', async () => {
    await bench.start();
    await until('the mirror is ready', () => isReady(mirror()));
    const { metadata, spec, status } = mirror() as Pod;
    expect(metadata?.annotations).toMatchObject({
      'kubernetes.io/config.source': 'file',
      'kubernetes.io/config.hash': expect.stringMatching(/^[0-9a-f]{32}$/),
      'kubernetes.io/config.mirror': metadata?.annotations?.['kubernetes.io/config.hash'],
    });
    expect(metadata?.ownerReferences).toEqual([expect.objectContaining({ kind: 'Node', name: 'node-a', controller: true })]);
    expect(spec).toMatchObject({ nodeName: 'node-a', tolerations: [{ operator: 'Exists', effect: 'NoExecute' }] });
    expect(metadata?.uid).not.toBe(metadata?.annotations?.['kubernetes.io/config.hash']);
    expect(status?.containerStatuses?.[0]).toMatchObject({ ready: true, restartCount: 0 });
  });

  it('recreates a deleted mirror pod without touching the static pod, and deletes mirror pods without one', async () => {
    await bench.start();
    await until('the mirror is ready', () => isReady(mirror()));
    const before = mirror()?.metadata?.uid;
    const [container] = await bench.runtime.listContainers();
    await bench.api.client().delete(pods, { namespace: 'kube-system', name: 'web-node-a' });
    await until('another mirror is ready', () => isReady(mirror()) && mirror()?.metadata?.uid !== before);
    expect((await bench.runtime.listContainers()).map(({ id }) => id)).toEqual([container?.id]);
    bench.api.seed(pods, {
      ...(mirror() as Pod),
      metadata: { ...mirror()?.metadata, name: 'nothing-node-a', uid: 'other', resourceVersion: '' },
    } as Pod);
    await until('the mirror of nothing is gone', () => mirror('nothing-node-a') === undefined);
  });

  it('replaces a pod when its manifest changes and terminates it when the manifest is removed', async () => {
    await bench.start();
    await until('the mirror is ready', () => isReady(mirror()));
    const hash = mirror()?.metadata?.annotations?.['kubernetes.io/config.hash'];
    writeFileSync(file, yaml('registry.test/app:2'));
    await until('the new one is ready', () => isReady(mirror()) && mirror()?.spec?.containers[0]?.image === 'registry.test/app:2');
    expect(mirror()?.metadata?.annotations?.['kubernetes.io/config.hash']).not.toBe(hash);
    expect(await running()).toHaveLength(1);
    rmSync(file);
    await until('the mirror is gone', () => mirror() === undefined);
    expect(await running()).toEqual([]);
  });

  it('adopts static pods after a restart of the kubelet', async () => {
    await bench.start();
    await until('the mirror is ready', () => isReady(mirror()));
    const ids = async () => (await bench.runtime.listContainers()).map(({ id }) => id);
    const before = await ids();
    const uid = mirror()?.metadata?.uid;
    await bench.restart(5000);
    await until('the mirror is ready', () => isReady(mirror()));
    expect(await ids()).toEqual(before);
    expect(mirror()?.metadata?.uid).toBe(uid);
    expect(mirror()?.status?.containerStatuses?.[0]?.restartCount).toBe(0);
  });

  it('rejects manifests that refer to API objects or are malformed, without effect on others', async () => {
    writeFileSync(join(directory, 'bad.yaml'), 'kind: [');
    writeFileSync(join(directory, 'needy.yaml'), `${yaml('registry.test/app:1', 'needy')}  serviceAccountName: default\n`);
    await bench.start();
    await until('the mirror is ready', () => isReady(mirror()));
    expect(bench.kubelet.agents.get('node-a')?.pods.size).toBe(1);
  });

  it('reads manifests from a URL', async () => {
    let body = JSON.stringify({
      kind: 'PodList',
      apiVersion: 'v1',
      items: [{ metadata: { name: 'far' }, spec: { containers: [{ name: 'app', image: 'registry.test/app:1' }] } }],
    });
    const server = createServer((_request, response) => response.end(body)).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    await bench.dispose();
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/pods`;
    bench = new Bench({ config: { staticPods: { ...staticPods, path: undefined, url } } });
    await bench.start();
    const far = () => bench.pod('far-node-a');
    await until('the mirror is ready', () => isReady(far()));
    expect(far()?.metadata?.annotations?.['kubernetes.io/config.source']).toBe('http');
    body = JSON.stringify({ kind: 'PodList', apiVersion: 'v1', items: [] });
    await until('the mirror is gone', () => far() === undefined);
    server.close();
  });
});
