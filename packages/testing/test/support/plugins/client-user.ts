import { configMaps, namespaces } from '@oarlock/api/resources';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';

/** Reads objects through the client and the informers before it admits a ConfigMap. */
export default Admission.plugin({
  id: 'admission-needing',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create({ client, informers }) {
    const known = informers.forResource(namespaces);
    return {
      matches: [{ resources: ['configmaps'], operations: ['CREATE'] }],
      async validate({ namespace, object }) {
        await known.whenSynced();
        if (known.get(namespace)?.metadata?.labels?.['open'] === undefined) return deny('the namespace is not open');
        const first = object?.metadata?.annotations?.['after'];
        if (first === undefined) return allow;
        await client.get(configMaps, { namespace, name: first });
        return allow;
      },
    };
  },
});
