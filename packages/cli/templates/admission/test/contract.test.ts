import { deployments, pods } from '@oarlock/api/resources';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import plugin from '../src/plugin.ts';

const web = (labels: Record<string, string>) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'a', name: 'web', labels },
});
const owned = web({ owner: 'ada' });
const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { namespace: 'a', name: 'b' } };

admissionContract('__ID__', () => {
  const [created] = new PluginHost().add({ plugin }).get(Admission);
  if (created === undefined) throw new Error('the plugin was not created');
  return {
    plugin: created,
    cases: [
      { title: 'with the label', expected: 'allowed', request: admissionRequest('CREATE', deployments, owned) },
      {
        title: 'without it',
        expected: 'denied',
        request: admissionRequest('CREATE', deployments, web({})),
        message: /label owner is missing/,
      },
      { title: 'with an empty one', expected: 'denied', request: admissionRequest('CREATE', deployments, web({ owner: '' })) },
      { title: 'an update takes it away', expected: 'denied', request: admissionRequest('UPDATE', deployments, web({}), { old: owned }) },
      { title: 'a deletion', expected: 'ignored', request: admissionRequest('DELETE', deployments, undefined, { old: web({}) }) },
      { title: 'another resource', expected: 'ignored', request: admissionRequest('CREATE', pods, pod) },
    ],
  };
});
