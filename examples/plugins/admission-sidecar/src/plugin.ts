import type { Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Adds a container to pods with an annotation. Idempotent: reinvocation changes nothing. */
export default Admission.plugin({
  id: 'admission-sidecar',
  config: z.strictObject({
    name: z.string().min(1).default('proxy'),
    image: z.string().min(1),
    annotation: z.string().min(1).default('sidecar.example.com/inject'),
    env: z.record(z.string(), z.string()).default({}),
  }),
  create: ({ config }) => ({
    matches: [{ resources: ['pods'], operations: ['CREATE'] }],
    mutate({ object }) {
      const pod = object as Pod | undefined;
      if (pod?.spec === undefined || pod.metadata?.annotations?.[config.annotation] !== 'true') return object ?? allow;
      const { initContainers = [] } = pod.spec;
      if (initContainers.some(({ name }) => name === config.name)) return pod;
      // a sidecar container (restartPolicy Always) starts before the others and ends after them
      const env = Object.entries(config.env).map(([name, value]) => ({ name, value }));
      // as Kubernetes stores objects: a list without items is left out
      const sidecar = { name: config.name, image: config.image, restartPolicy: 'Always', ...(env.length > 0 && { env }) };
      return { ...pod, spec: { ...pod.spec, initContainers: [sidecar, ...initContainers] } };
    },
  }),
});
