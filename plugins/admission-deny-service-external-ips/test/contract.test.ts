import { services } from '@oarlock/api/resources';
import type { Service } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import plugin from '../src/plugin.ts';

const service = (...externalIPs: string[]): Service => ({ metadata: { namespace: 'd', name: 's' }, spec: { externalIPs } });
const message = 'Use of external IPs is denied by admission control';

admissionContract('admission-deny-service-external-ips', async () => ({
  plugin: (await openAdmission(plugin)).plugin,
  cases: [
    { title: 'none', request: admissionRequest('CREATE', services, service()), expected: 'allowed' },
    {
      title: 'those that were there',
      request: admissionRequest('UPDATE', services, service('1.2.3.4'), { old: service('1.2.3.4', '1.2.3.5') }),
      expected: 'allowed',
    },
    { title: 'a new Service', request: admissionRequest('CREATE', services, service('1.2.3.4')), expected: 'denied', message },
    {
      title: 'a new address',
      request: admissionRequest('UPDATE', services, service('1.2.3.4'), { old: service() }),
      expected: 'denied',
      message,
    },
  ],
}));
