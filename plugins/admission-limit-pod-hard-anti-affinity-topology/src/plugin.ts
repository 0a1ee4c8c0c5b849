import type { Pod } from '@oarlock/api/types/core-v1';
import { Admission, allow, deny } from '@oarlock/spi/admission';
import { z } from 'zod';

const hostname = 'kubernetes.io/hostname';

/** Rejects required pod anti-affinity with a topology key other than the hostname (LimitPodHardAntiAffinityTopology). */
export default Admission.plugin({
  id: 'admission-limit-pod-hard-anti-affinity-topology',
  config: z.strictObject({}),
  create: () => ({
    matches: [{ resources: ['pods'], operations: ['CREATE', 'UPDATE'] }],
    validate({ object }) {
      const terms = ((object ?? {}) as Pod).spec?.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
      const wide = terms.find(({ topologyKey }) => topologyKey !== hostname);
      return wide === undefined
        ? allow
        : deny(`affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey ${wide.topologyKey} but only key ${hostname} is allowed`);
    },
  }),
});
