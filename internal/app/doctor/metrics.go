package doctor

import (
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/app/config"
	"partnerd/internal/infra/postgres"
)

// Collectors measure of a deployment what [Examine] judges: whether what is due is done, the weeks ahead, and the disk
// of the data folder.
func Collectors(db *postgres.DB, cfg *config.Config) []prometheus.Collector {
	return []prometheus.Collector{partitions{db}, late{db}, dataDisk{cfg}}
}
