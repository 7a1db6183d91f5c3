package doctor

import (
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/app/config"
	"partnerd/internal/infra/postgres"
)

// Collectors measure what [Examine] checks: whether due work is done, the partitions ahead, and the data folder's disk.
func Collectors(db *postgres.DB, cfg *config.Config) []prometheus.Collector {
	return []prometheus.Collector{partitions{db}, late{db}, dataDisk{cfg}}
}
