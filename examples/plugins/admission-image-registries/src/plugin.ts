import type { Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

/** Returns the registry of an image as container runtimes read its name: without a host it is Docker Hub. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/');
  const isHost = rest.length > 0 && (first.includes('.') || first.includes(':') || first === 'localhost');
  return isHost ? first : 'docker.io';
}

/** Admits only pods whose images come from an allowed registry. */
export default Admission.plugin({
  id: 'admission-image-registries',
  config: z.strictObject({
    allowed: z.array(z.string().min(1)).min(1),
    /** Namespaces that are exempt. */
    exempt: z.array(z.string().min(1)).default(['kube-system']),
  }),
  create: ({ config }) => ({
    matches: [{ resources: ['pods', 'pods/ephemeralcontainers'], operations: ['CREATE', 'UPDATE'] }],
    validate({ object, namespace, warn }) {
      if (config.exempt.includes(namespace)) return allow;
      const { containers = [], initContainers = [], ephemeralContainers = [] } = (object as Pod | undefined)?.spec ?? {};
      for (const { name, image = '' } of [...initContainers, ...containers, ...ephemeralContainers]) {
        const registry = registryOf(image);
        if (!config.allowed.includes(registry))
          return deny(`image "${image}" of container "${name}" is from ${registry}; allowed are ${config.allowed.join(', ')}`);
        if (!image.includes('@') && (image.endsWith(':latest') || !/:[^/]+$/.test(image)))
          warn(`container "${name}": "${image}" may change: give it a version`);
      }
      return allow;
    },
  }),
});
