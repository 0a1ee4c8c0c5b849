import { expect, it } from 'vitest';
import type { Item } from '../../harness/api.ts';
import { httpGet } from '../../harness/http.ts';
import { untilValue } from '../../harness/until.ts';
import type { TwoNodes } from './two-nodes.ts';

const both = ['server-node-a', 'server-node-b'] as const;

/** Services of every type, from both nodes. */
export function serviceBehaviours(two: TwoNodes): void {
  const at = (name: string) => `${two.at('services')}/${name}`;

  it('Services should serve a basic endpoint from pods', async () => {
    const { spec } = await two.service('basic', { selector: { app: 'basic' } });
    expect(await two.ask(spec.clusterIP)).toEqual(['']);
    await Promise.all([two.server('basic-1', 'node-a', { app: 'basic' }), two.server('basic-2', 'node-b', { app: 'basic' })]);
    for (const node of two.nodes) await two.answers(spec.clusterIP, ['basic-1', 'basic-2'], { pod: `client-${node}` });
    await two.remove(`${two.at('pods')}/basic-1`);
    for (const node of two.nodes) await two.answers(spec.clusterIP, ['basic-2'], { pod: `client-${node}` });
    await two.remove(`${two.at('pods')}/basic-2`);
    await two.answers(spec.clusterIP, ['']);
  });

  it('Services should serve multiport endpoints from pods', async () => {
    const { spec } = await two.service('multiport', {
      ports: [
        { name: 'one', port: 80, targetPort: 8080 },
        { name: 'two', port: 81, targetPort: 'http' },
      ],
    });
    await two.answers(spec.clusterIP, both);
    await two.answers(spec.clusterIP, both, { port: 81 });
  });

  it('Services should have session affinity work for service with type clusterIP; should be able to switch session affinity', async () => {
    const { spec } = await two.service('sticky', { sessionAffinity: 'ClientIP' });
    await untilValue(
      'an endpoint',
      () => two.ask(spec.clusterIP),
      ([by]) => by !== '',
    );
    // a response that comes too late counts as no response
    const answers = (await two.ask(spec.clusterIP, { times: 12 })).filter((by) => by !== '');
    expect(new Set(answers).size).toBe(1);
    await two.merge(at('sticky'), { spec: { sessionAffinity: 'None' } });
    await two.answers(spec.clusterIP, both);
    await two.merge(at('sticky'), { spec: { sessionAffinity: 'ClientIP' } });
    const different = async () => new Set(await two.ask(spec.clusterIP, { times: 12 })).size;
    await untilValue('one endpoint for each client', different, (count) => count === 1);
  });

  it('Services should be able to create a functioning NodePort service; should have session affinity work for NodePort service, and be able to switch', async () => {
    const { spec } = await two.service('node-port', { type: 'NodePort' });
    const port = spec.ports[0]?.nodePort ?? 0;
    for (const address of two.addresses.values())
      for (const node of two.nodes) await two.answers(address, both, { pod: `client-${node}`, port });
    // from outside of the pods, at the other node
    const outside = () => httpGet(`http://${two.addresses.get('node-b')}:${port}/hostname`).then(({ body }) => body.trim(), String);
    await untilValue('a response of the other node', outside, (by) => both.includes(by as 'server-node-a'));
    await two.merge(at('node-port'), { spec: { sessionAffinity: 'ClientIP' } });
    const different = async () => new Set(await two.ask(two.addresses.get('node-a') ?? '', { times: 12, port })).size;
    await untilValue('one endpoint for each client', different, (count) => count === 1);
    await two.merge(at('node-port'), { spec: { sessionAffinity: 'None' } });
    await two.answers(two.addresses.get('node-a') ?? '', both, { port });
  });

  it('Services should be able to change the type from ExternalName to ClusterIP and NodePort, from ClusterIP and NodePort to ExternalName', async () => {
    const name = 'changes';
    await two.service(name, { type: 'ExternalName', externalName: 'elsewhere.example', selector: undefined, ports: undefined });
    const host = `${name}.${two.namespace}.svc.cluster.local`;
    const changed = (spec: object) =>
      two.merge<Item & { spec: { clusterIP?: string; ports?: readonly { nodePort?: number }[] } }>(at(name), { spec });
    const service = { selector: { app: 'server' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }], externalName: null };
    for (const type of ['ClusterIP', 'NodePort']) {
      const { spec } = await changed({ type, ...service });
      await two.answers(host, both);
      if (type === 'NodePort') await two.answers(two.addresses.get('node-a') ?? '', both, { port: spec.ports?.[0]?.nodePort ?? 0 });
      const { spec: external } = await changed({
        type: 'ExternalName',
        externalName: 'server.network.svc.cluster.local',
        clusterIP: null,
        clusterIPs: null,
        ports: [{ name: 'http', port: 80 }],
      });
      expect(external.clusterIP ?? '').toBe('');
      await two.untilOutput(`nslookup -type=cname ${host}.`, (output) =>
        output.includes('canonical name = server.network.svc.cluster.local'),
      );
    }
  });

  it('Services should complete a service status lifecycle', async () => {
    await two.service('status', { type: 'LoadBalancer', ports: [{ name: 'http', port: 80, targetPort: 8080 }] });
    const status = { loadBalancer: { ingress: [{ ip: '203.0.113.77' }] } };
    expect(await two.merge(`${at('status')}/status`, { metadata: { annotations: { patched: 'true' } }, status })).toMatchObject({ status });
    // the address is served on every node, as if the load balancer had sent the packet there
    for (const node of two.nodes) await two.answers('203.0.113.77', both, { pod: `client-${node}` });
    await two.merge(`${at('status')}/status`, { status: { loadBalancer: { ingress: null } } });
    expect(await two.api.get(`${at('status')}/status`)).toMatchObject({ metadata: { annotations: { patched: 'true' } } });
    await two.remove(at('status'));
    expect((await two.api.call('GET', at('status'))).status).toBe(404);
  });

  it('Services should delete a collection of services; should find a service from listing all namespaces', async () => {
    const labels = { collection: 'of-three' };
    await Promise.all([1, 2, 3].map((number) => two.service(`collected-${number}`, {}, { labels })));
    const found = () => two.api.get<{ items: readonly Item[] }>('/api/v1/services?labelSelector=collection%3Dof-three');
    expect((await found()).items).toHaveLength(3);
    await two.remove(`${two.at('services')}?labelSelector=collection%3Dof-three`);
    expect((await found()).items).toHaveLength(0);
  });

  it('Service endpoints latency should not be very high', async () => {
    // upstream allows 50 s; here the endpoints of services that are created at the same time need only appear
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await two.service(`latency-${index}`);
        await two.api.until<Item & { endpoints?: readonly object[] | null }>(
          'its endpoints',
          `${two.at('discovery.k8s.io/v1/endpointslices')}?labelSelector=kubernetes.io%2Fservice-name%3Dlatency-${index}`,
          (slices) => slices.flatMap(({ endpoints }) => endpoints ?? []).length === 2,
        );
      }),
    );
  });

  it('traffic policies: Local leads to endpoints of the node and keeps the address of the client', async () => {
    const { spec } = await two.service('local', { type: 'NodePort', internalTrafficPolicy: 'Local', externalTrafficPolicy: 'Local' });
    for (const node of two.nodes) await two.answers(spec.clusterIP, [`server-${node}`], { pod: `client-${node}` });
    const port = spec.ports[0]?.nodePort ?? 0;
    const far = () => httpGet(`http://${two.addresses.get('node-b')}:${port}/hostname`).then(({ body }) => body.trim(), String);
    await untilValue('the endpoint of the other node', far, (by) => by === 'server-node-b');
  });
}
