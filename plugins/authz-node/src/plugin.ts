import { Authz } from '@oarlock/spi/authz';
import { Client, Informers } from '@oarlock/spi/client';
import { z } from 'zod';
import { NodeAuthorizer } from './node-authorizer.ts';
import { NodeObjects } from './node-objects.ts';

/** Authorizes nodes by their name and by the pods that are bound to them (Node authorizer). */
export default Authz.plugin({
  id: 'authz-node',
  config: z.strictObject({}),
  needs: { client: Client, informers: Informers },
  create: ({ client, informers }) => new NodeAuthorizer(new NodeObjects(client, informers)),
});
