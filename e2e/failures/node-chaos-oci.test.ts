import { componentMissing } from '../harness/component-availability.ts';
import { chaosOci } from './chaos/chaos-runtime.ts';
import { chaosOn } from './chaos/chaos-suite.ts';

const missing = () => (process.getuid?.() === 0 ? componentMissing.runc() : 'needs root');
await chaosOn('runtime-oci', { missing, open: chaosOci });
