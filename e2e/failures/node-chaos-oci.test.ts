import { ociStages } from '../conformance/oci-environments.ts';
import { chaosOci } from './chaos/chaos-oci.ts';
import { chaosOn } from './chaos/chaos-suite.ts';

await chaosOn('runtime-oci', { missing: ociStages.oci.missing, open: (machine) => chaosOci(machine, 'oci') });
