import { configMaps } from '@oarlock/api/resources';
import { controllerFor } from '@oarlock/controller-kit/controller-for';
import { z } from 'zod';
import { __Kind__ } from './kind.ts';

/** Publishes the message of each object in ConfigMaps. */
export default controllerFor(__Kind__, { id: '__ID__', config: z.strictObject({ key: z.string().min(1).default('message') }) })
  .owns(configMaps)
  .installDefinition()
  .reconcile(async ({ metadata, spec }, { apply, owned, setStatus, client, config }) => {
    const names = Array.from({ length: spec.copies }, (_, index) => `${metadata.name}-${index}`);
    for (const name of names) await apply(configMaps, { metadata: { name }, data: { [config.key]: spec.message } });
    // copies beyond the declared number; the garbage collector deletes the others with the object
    for (const { metadata: { namespace = '', name = '' } = {} } of owned(configMaps))
      if (!names.includes(name)) await client.delete(configMaps, { namespace, name });
    await setStatus({ copies: names.length }, [
      { type: 'Ready', status: 'True', reason: 'Published', message: `published ${names.length}` },
    ]);
  });
