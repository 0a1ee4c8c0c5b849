import { componentMissing } from '../harness/component-availability.ts';
import { chaosContainerd } from './chaos/chaos-runtime.ts';
import { chaosOn } from './chaos/chaos-suite.ts';

await chaosOn('containerd', { missing: componentMissing.containerd, open: chaosContainerd });
