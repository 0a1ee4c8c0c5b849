import { configMaps } from '@oarlock/api/resources';
import { z } from 'zod';
import { controllerFor } from '../../src/controller-for.ts';
import { customResource, type ObjectOfKind } from '../../src/custom-resource.ts';
import { conditions, rule } from '../../src/fields.ts';

export const Website = customResource({
  group: 'example.com',
  kind: 'Website',
  shortNames: ['web'],
  version: {
    name: 'v1',
    spec: z.object({
      title: z.string().min(1).max(64),
      pages: rule(z.record(z.string(), z.string()), 'size(self) <= 10', 'at most 10 pages').default({}),
      replicas: z.int32().min(0).max(10).default(1),
    }),
    status: z.object({ pages: z.int32().optional(), replicas: z.int32().optional(), conditions: conditions().optional() }),
    printerColumns: [{ name: 'Title', type: 'string', jsonPath: '.spec.title' }],
    scale: { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' },
    selectableFields: ['.spec.title'],
    rules: [{ rule: "self.metadata.name != 'forbidden'", message: 'the name is reserved' }],
  },
});
export type Website = ObjectOfKind<typeof Website>;

/** Writes the pages of a website to a ConfigMap. */
export const websiteController = controllerFor(Website, {
  id: 'controller-website',
  config: z.strictObject({ suffix: z.string().default('-pages') }),
})
  .owns(configMaps)
  .finalizer('example.com/website', async (_, { log }) => log.info({}, 'the website is deleted'))
  .installDefinition()
  .reconcile(async (website, { apply, setStatus, config, event }) => {
    const { title, pages } = website.spec;
    if (Object.keys(pages).length === 0) {
      await setStatus({ pages: 0 }, [{ type: 'Ready', status: 'False', reason: 'NoPages', message: 'the website has no pages' }]);
      return;
    }
    await apply(configMaps, { metadata: { name: `${website.metadata.name}${config.suffix}`, labels: { title } }, data: pages });
    if (website.status?.conditions?.[0]?.status !== 'True') event('Normal', 'Published', `published ${Object.keys(pages).length} pages`);
    await setStatus({ pages: Object.keys(pages).length }, [{ type: 'Ready', status: 'True', reason: 'Published', message: '' }]);
  });
