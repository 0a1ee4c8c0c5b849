import { limitRanges, persistentVolumeClaims, pods } from '@oarlock/api/resources';
import type { LimitRangeItem, Pod, ResourceRequirements } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { expect } from 'vitest';
import plugin from '../src/plugin.ts';

const range = (namespace: string, ...limits: LimitRangeItem[]) => ({ metadata: { namespace, name: 'limits' }, spec: { limits } });
const asking = (namespace: string, resources?: ResourceRequirements, more: Partial<NonNullable<Pod['spec']>> = {}) =>
  admissionRequest('CREATE', pods, {
    metadata: { namespace, name: 'p' },
    spec: { containers: [{ name: 'c', image: 'x', ...(resources && { resources }) }], ...more },
  });
const both = (cpu: string, limit = cpu): ResourceRequirements => ({ requests: { cpu }, limits: { cpu: limit } });
const claim = (storage: string) => ({ metadata: { namespace: 'claims', name: 'c' }, spec: { resources: { requests: { storage } } } });
const as = (object: unknown) => object as Pod;

// LimitRange should create a LimitRange with defaults and ensure pod has those defaults applied
admissionContract('admission-limit-ranger', async () => ({
  ...(await openAdmission(plugin, {
    seed: (api) =>
      api.seed(
        limitRanges,
        range('defaults', { type: 'Container', default: { cpu: '500m', memory: '1Gi' }, defaultRequest: { cpu: '100m' } }),
        range('narrow', { type: 'Container', min: { cpu: '100m' }, max: { cpu: '1' }, maxLimitRequestRatio: { cpu: '2' } }),
        range('several', { type: 'Container', min: { memory: '1Gi', cpu: '100m' }, max: { cpu: '1' } }),
        range('whole', { type: 'Pod', max: { cpu: '2' } }),
        range('claims', { type: 'PersistentVolumeClaim', min: { storage: '1Gi' }, max: { storage: '2Gi' } }),
      ),
  })),
  cases: [
    {
      title: 'defaults',
      request: asking('defaults', undefined, {
        initContainers: [{ name: 'i', image: 'x', resources: { limits: { cpu: '1' }, requests: { cpu: '1' } } }],
      }),
      expected: 'allowed',
      check: (object) => {
        expect(as(object).spec?.containers[0]?.resources).toEqual({ limits: { cpu: '500m', memory: '1Gi' }, requests: { cpu: '100m' } });
        expect(as(object).spec?.initContainers?.[0]?.resources).toEqual({ limits: { cpu: '1', memory: '1Gi' }, requests: { cpu: '1' } });
        expect(object?.metadata?.annotations).toEqual({
          'kubernetes.io/limit-ranger':
            'LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c; memory limit for init container i',
        });
      },
    },
    {
      title: 'partial defaults',
      request: asking('defaults', { requests: { cpu: '50m' }, limits: { memory: '2Gi' } }),
      expected: 'allowed',
      check: (object) =>
        expect(as(object).spec?.containers[0]?.resources).toEqual({ limits: { cpu: '500m', memory: '2Gi' }, requests: { cpu: '50m' } }),
    },
    { title: 'nothing to limit', request: asking('free'), expected: 'ignored' },
    { title: 'within the limits', request: asking('narrow', both('500m', '1')), expected: 'allowed' },
    {
      title: 'several errors: minimum before maximum, each by resource name',
      request: asking('several', { requests: { cpu: '50m', memory: '1Mi' }, limits: { cpu: '2', memory: '1Gi' } }),
      expected: 'denied',
      message:
        '[minimum cpu usage per Container is 100m, but request is 50m, minimum memory usage per Container is 1Gi, but request is 1Mi, maximum cpu usage per Container is 1, but limit is 2]',
    },
    {
      title: 'too little',
      request: asking('narrow', both('50m', '100m')),
      expected: 'denied',
      message: 'minimum cpu usage per Container is 100m, but request is 50m',
    },
    {
      title: 'nothing asked',
      request: asking('narrow'),
      expected: 'denied',
      message:
        /^\[minimum cpu usage per Container is 100m.  No request is specified, maximum cpu usage per Container is 1.  No limit is specified, cpu max limit to request ratio per Container is 2, but no request is specified or request is 0\]$/,
    },
    {
      title: 'too much',
      request: asking('narrow', both('1500m')),
      expected: 'denied',
      message: 'maximum cpu usage per Container is 1, but limit is 1500m',
    },
    {
      title: 'too wide',
      request: asking('narrow', both('100m', '1')),
      expected: 'denied',
      message: 'cpu max limit to request ratio per Container is 2, but provided ratio is 10.000000',
    },
    {
      title: 'a pod as a whole',
      request: asking('whole', both('1'), { initContainers: [{ name: 'i', image: 'x', resources: both('3') }] }),
      expected: 'denied',
      message: 'maximum cpu usage per Pod is 2, but limit is 3',
    },
    { title: 'a claim', request: admissionRequest('CREATE', persistentVolumeClaims, claim('1Gi')), expected: 'allowed' },
    {
      title: 'a small claim',
      request: admissionRequest('CREATE', persistentVolumeClaims, claim('1Mi')),
      expected: 'denied',
      message: 'minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi',
    },
    {
      title: 'a large claim',
      request: admissionRequest('UPDATE', persistentVolumeClaims, claim('3Gi'), { old: claim('1Gi') }),
      expected: 'denied',
      message: 'maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi',
    },
    {
      title: 'a claim that goes',
      request: admissionRequest('UPDATE', persistentVolumeClaims, claim('3Gi'), {
        old: { metadata: { namespace: 'claims', name: 'c', deletionTimestamp: 'x' } },
      }),
      expected: 'allowed',
    },
  ],
}));
