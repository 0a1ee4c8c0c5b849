/** The program of a worker: an API server that uses the storage and the port of the process that started it. */
import { runWorker } from './run-worker.ts';

await runWorker();
