import { deployments, pods } from '@oarlock/api/resources';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { Admission } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import plugin from '../src/plugin.ts';

const config = { labels: ['owner', 'cost-center'] };
const web = (labels: Record<string, string>) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { namespace: 'a', name: 'web', labels },
});
const labelled = web({ owner: 'ada', 'cost-center': '7' });

admissionContract('admission-required-labels', () => {
  const [created] = new PluginHost().add({ plugin, config }).get(Admission);
  if (created === undefined) throw new Error('the plugin was not created');
  return {
    plugin: created,
    cases: [
      { title: 'all labels', expected: 'allowed', request: admissionRequest('CREATE', deployments, labelled) },
      {
        title: 'one label is missing',
        expected: 'denied',
        request: admissionRequest('CREATE', deployments, web({ owner: 'ada' })),
        message: 'required labels are missing: cost-center',
      },
      {
        title: 'an empty label',
        expected: 'denied',
        request: admissionRequest('CREATE', deployments, web({ owner: '', 'cost-center': '7' })),
        message: /: owner$/,
      },
      {
        title: 'an update that removes one',
        expected: 'denied',
        request: admissionRequest('UPDATE', deployments, web({}), { old: labelled }),
        message: 'required labels are missing: owner, cost-center',
      },
      { title: 'a deletion', expected: 'ignored', request: admissionRequest('DELETE', deployments, undefined, { old: web({}) }) },
      {
        title: 'another resource',
        expected: 'ignored',
        request: admissionRequest('CREATE', pods, { metadata: { namespace: 'a', name: 'b' } }),
      },
    ],
  };
});
