import { describe, expect, it } from 'vitest';
import { flowDrawing, serviceFlows, type EndpointSlice, type Ingress, type Service } from '../../../src/views/topology/service-flow.ts';

const metadata = (name: string, namespace = 'd') => ({ name, namespace, uid: `${namespace}/${name}`, resourceVersion: '1' });
const service = (name: string, namespace?: string): Service => ({ metadata: metadata(name, namespace) });
const slice = (of: string, endpoints: EndpointSlice['endpoints'], namespace = 'd'): EndpointSlice => ({
  metadata: { ...metadata(`${of}-x`, namespace), labels: { 'kubernetes.io/service-name': of } },
  ...(endpoints && { endpoints }),
});
const pod = (name: string, address: string, nodeName: string, conditions = {}) => ({
  ...{ addresses: [address], nodeName, conditions, targetRef: { kind: 'Pod', name } },
});

describe('serviceFlows', () => {
  it('joins the slices of a Service by its label and namespace, and the addresses of a pod', () => {
    const flows = serviceFlows(
      [service('web'), service('api')],
      [
        slice('web', [pod('web-2', '10.0.0.2', 'b', { ready: false }), pod('web-1', '10.0.0.1', 'a')]),
        slice('web', [pod('web-1', 'fd00::1', 'a')]),
        slice('web', [pod('other', '10.0.0.9', 'a')], 'elsewhere'),
        slice('api', [{ addresses: ['192.0.2.1'] }, pod('api-1', '10.0.0.3', 'a', { ready: false, terminating: true })]),
      ],
      [],
    );
    expect(flows.map((flow) => [flow.service.metadata.name, flow.endpoints])).toEqual([
      [
        'api',
        [
          { name: '192.0.2.1', isPod: false, addresses: ['192.0.2.1'], node: '', state: 'ready' },
          { name: 'api-1', isPod: true, addresses: ['10.0.0.3'], node: 'a', state: 'terminating' },
        ],
      ],
      [
        'web',
        [
          { name: 'web-1', isPod: true, addresses: ['10.0.0.1', 'fd00::1'], node: 'a', state: 'ready' },
          { name: 'web-2', isPod: true, addresses: ['10.0.0.2'], node: 'b', state: 'notReady' },
        ],
      ],
    ]);
  });

  it('lists the Ingresses that send to a Service, by rules and by default', () => {
    const ingress = (name: string, spec: Ingress['spec']): Ingress => ({ metadata: metadata(name), ...(spec && { spec }) });
    const [flow] = serviceFlows(
      [service('web')],
      [],
      [
        ingress('rules', {
          rules: [{ http: { paths: [{ backend: { service: { name: 'web' } } }, { backend: { service: { name: 'web' } } }] } }],
        }),
        ingress('default', { defaultBackend: { service: { name: 'web' } } }),
        ingress('other', { defaultBackend: { service: { name: 'api' } } }),
      ],
    );
    expect(flow?.ingresses).toEqual(['default', 'rules']);
  });
});

describe('flowDrawing', () => {
  it('draws each box once, and leaves out empty columns', () => {
    const flows = serviceFlows(
      [service('web'), service('metrics')],
      [slice('web', [pod('p', '10.0.0.1', 'a', { ready: false })]), slice('metrics', [pod('p', '10.0.0.1', 'a')])],
      [],
    );
    const { columns, edges } = flowDrawing(flows);
    expect(columns.map((boxes) => boxes.map(({ label }) => label))).toEqual([['d/metrics', 'd/web'], ['p'], ['a']]);
    expect(edges.map(({ from, to, reach }) => [from, to, reach])).toEqual([
      ['1 d/metrics', '2 d/p', 'all'],
      ['2 d/p', '3 a', 'all'],
      ['1 d/web', '2 d/p', 'some'],
    ]);
  });
});
