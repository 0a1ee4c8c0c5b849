export const deploymentsPath = '/apis/apps/v1/namespaces/default/deployments';

/** A Deployment whose pods have a label with its name. */
export const deploymentOf = (name: string, replicas: number, podSpec: object) => ({
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  metadata: { name },
  spec: {
    replicas,
    selector: { matchLabels: { app: name } },
    template: { metadata: { labels: { app: name } }, spec: podSpec },
  },
});
