import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

const program = `
const { parentPort, workerData: { name, link, spare } } = require('node:worker_threads');
const { renameSync } = require('node:fs');
let stop = false;
parentPort.once('message', () => { stop = true; });
parentPort.postMessage('started');
const flip = () => {
  for (let turn = 0; turn < 100; turn++) {
    for (const [from, to] of [[name, spare], [link, name], [name, link], [spare, name]]) renameSync(from, to);
  }
  if (stop) parentPort.close();
  else setImmediate(flip);
};
flip();`;

export interface FlippingLink {
  /** The name that is a directory and a link by turns. */
  readonly name: string;
  /** The link, when it does not have the name. */
  readonly link: string;
  /** The directory, when it does not have the name. */
  readonly spare: string;
}

/** Lets a directory and a link take the same name by turns, as a pod can in a volume, while `during` runs. The directory has the name in the end. */
export async function whileFlipping(paths: FlippingLink, during: () => Promise<void>): Promise<void> {
  const worker = new Worker(program, { eval: true, workerData: paths });
  const exited = once(worker, 'exit');
  await once(worker, 'message');
  try {
    await during();
  } finally {
    worker.postMessage('stop', []);
    await exited;
  }
}
