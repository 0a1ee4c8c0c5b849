import { deployments, endpoints, endpointSlices, nodes, services } from '@oarlock/api/resources';
import { describe, expect, it } from 'vitest';
import { api, clock, deployment, makeReady, reap, start, template, useBuiltInControllers } from '../support/built-in-controllers.ts';

useBuiltInControllers();

describe('endpoints controllers', () => {
  it('track the pods of a Service: ready, not ready, deleted', async () => {
    await start();
    await api.client().create(services, {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { namespace: 'd', name: 'web' },
      spec: {
        clusterIP: '10.96.0.7',
        clusterIPs: ['10.96.0.7'],
        ipFamilies: ['IPv4'],
        selector: { app: 'web' },
        ports: [{ name: 'http', port: 80, targetPort: 8080, protocol: 'TCP' }],
      },
    });
    api.seed(nodes, { metadata: { name: 'n' } });
    const { spec, ...rest } = template('a:1');
    await api
      .client()
      .create(
        deployments,
        deployment({ replicas: 2, template: { ...rest, spec: { ...spec, containers: spec?.containers ?? [], nodeName: 'n' } } }),
      );
    await clock.settle();
    await makeReady();
    const [slice] = api.objects(endpointSlices, 'd');
    expect(slice).toMatchObject({
      addressType: 'IPv4',
      ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      metadata: {
        labels: { 'kubernetes.io/service-name': 'web', 'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io' },
      },
    });
    expect(slice?.endpoints?.map(({ conditions }) => conditions)).toEqual([
      { ready: true, serving: true, terminating: false },
      { ready: true, serving: true, terminating: false },
    ]);
    expect(api.object(endpoints, { namespace: 'd', name: 'web' })?.subsets?.[0]?.addresses).toHaveLength(2);
    await api.client().patch(deployments, { namespace: 'd', name: 'web' }, 'merge', { spec: { replicas: 0 } });
    await clock.settle();
    await reap();
    expect(api.objects(endpointSlices, 'd').flatMap((each) => each.endpoints ?? [])).toEqual([]);
    expect(api.object(endpoints, { namespace: 'd', name: 'web' })?.subsets ?? []).toEqual([]);
  });
});
