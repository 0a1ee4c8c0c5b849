import { matrixOf } from './matrix.ts';

await matrixOf('simulated');
