import { apiServices, clusterRoles, configMaps, endpointSlices, nodes, pods, services } from '@oarlock/api/resources';
import { silentLogger } from '@oarlock/primitives/logger';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import type { ClusterKeys } from '@oarlock/spi/cluster';
import { controllerContract } from '@oarlock/spi/controller/contract';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, sequence, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import { MetricsController, type MetricsEndpoint } from '../src/metrics-controller.ts';

// covers the registration of the metrics API, interrupted at every write

const keys: ClusterKeys = {
  caBundle: 'CA',
  issue: () => Promise.resolve({ certificate: 'C', key: 'K' }),
  sign: () => Promise.reject(new Error('not called in this test')),
  serviceAccount: { issuer: '', signingKey: '', verifyingKeys: [] },
};

/** A server without a socket: sockets do not use the test's clock. */
function listener(): MetricsEndpoint {
  let front: MetricsEndpoint['frontProxy'];
  let listens = false;
  return {
    get isListening() {
      return listens;
    },
    get frontProxy() {
      return front;
    },
    listen: () => {
      listens = true;
      return Promise.resolve(10_250);
    },
    setFrontProxy: (next) => {
      front = next;
    },
    setKeyPair: () => undefined,
    close: () => Promise.resolve(),
  };
}

const kubeSystem = (name: string) => ({ namespace: 'kube-system', name });
const front = (ca: string) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: kubeSystem('extension-apiserver-authentication'),
  data: { 'requestheader-client-ca-file': ca, 'requestheader-allowed-names': '["front"]' },
});

controllerContract<MemoryApi>('controller-metrics-server', {
  open() {
    const clock = new FakeClock();
    return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformerFactory({ client, clock, random: sequence(7) }) };
  },
  create: ({ informers, clock }) =>
    new MetricsController(
      {
        nodes: informers.forResource(nodes),
        pods: informers.forResource(pods),
        authentication: informers.forResource(configMaps, {
          namespace: 'kube-system',
          fieldSelector: 'metadata.name=extension-apiserver-authentication',
        }),
        keys,
        host: '10.0.0.1',
        port: 0,
        resolutionMs: 15_000,
        timeoutMs: 1000,
        clock,
        log: silentLogger,
      },
      listener(),
    ),
  scenarios: [
    {
      title: 'the metrics API is registered when the front proxy is known, and the registration is restored after a change',
      steps: [
        (api) => void api.seed(configMaps, front('CA-1')),
        async (api) => void (await api.client().update(configMaps, front('CA-2'))),
      ],
      expectResult(api) {
        expect(api.object(services, kubeSystem('metrics-server'))?.spec?.ports?.[0]).toMatchObject({ port: 443, targetPort: 10_250 });
        expect(api.object(apiServices, { name: 'v1beta1.metrics.k8s.io' })?.spec?.service).toMatchObject(kubeSystem('metrics-server'));
        expect(api.object(clusterRoles, { name: 'system:aggregated-metrics-reader' })?.rules?.length).toBe(1);
        expect(api.object(endpointSlices, kubeSystem('metrics-server'))?.endpoints).toMatchObject([{ addresses: ['10.0.0.1'] }]);
      },
    },
  ],
});
