import { ociStages } from '../conformance/oci-environments.ts';
import { chaosOci } from './chaos/chaos-oci.ts';
import { chaosOn } from './chaos/chaos-suite.ts';

const stage = 'oci-mapped-users';
await chaosOn(`runtime-oci (${stage})`, {
  missing: ociStages[stage].missing,
  open: (machine) => chaosOci(machine, stage),
  onRequest: true,
});
